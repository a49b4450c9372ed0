// The view as an address: everything a person chose stands behind the # and comes back with the link.

export interface State {
  d: number; // recording
  by: string;
  axis: string; // event or time
  from: number; // NaN: the beginning
  to: number; // NaN: the end
  at: number; // event looked at; NaN: the peak
  tab: string;
  q: string; // word looked for
  alloc: number; // allocation looked at; NaN: none
  conf: string; // setting whose curve is drawn
}

const fresh: State = { d: 0, by: "category", axis: "event", from: NaN, to: NaN, at: NaN, tab: "flame", q: "", alloc: NaN, conf: "" };

// home makes a recording the one that an address without any means: the one that the headline speaks of.
export function home(d: number): void { fresh.d = d; }

export function read(hash: string): State {
  const s: any = { ...fresh };
  for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(key in fresh)) continue;
    s[key] = typeof (fresh as any)[key] === "number" ? parseFloat(value) : value;
  }
  s.d = Number.isInteger(s.d) && s.d >= 0 ? s.d : fresh.d;
  return s;
}

export function write(s: State): string {
  const out = new URLSearchParams();
  for (const [key, value] of Object.entries(s)) {
    const normal = (fresh as any)[key];
    if (Object.is(value, normal) || value === "") continue;
    out.set(key, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  }
  return out.toString();
}
