// How numbers are told. Sizes are binary, as PyTorch and the driver mean them.

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

export function unitOf(bytes: number): number {
  let i = 0;
  for (let v = Math.abs(bytes); v >= 1024 && i < units.length - 1; v /= 1024) i++;
  return i;
}

// size prints as the command line does: two decimals, the largest unit that keeps it at or above one.
export function size(bytes: number, decimals = 2): string {
  const u = unitOf(bytes);
  if (u === 0) return bytes + " B";
  return (bytes / 1024 ** u).toFixed(decimals) + " " + units[u];
}

// inUnit prints in a given unit, for axes whose labels must compare.
export function inUnit(bytes: number, u: number, decimals: number): string {
  return (bytes / 1024 ** u).toFixed(decimals) + " " + units[u];
}

export function signed(bytes: number): string {
  if (bytes === 0) return "±0";
  return (bytes > 0 ? "+" : "−") + size(Math.abs(bytes));
}

export function count(n: number): string {
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

export function plural(n: number, one: string, many = one + "s"): string {
  return count(n) + " " + (n === 1 ? one : many);
}

export function percent(part: number, whole: number): string {
  if (whole <= 0) return "–";
  const p = (100 * part) / whole;
  return p > 0 && p < 1 ? "<1 %" : p.toFixed(0) + " %";
}

export function duration(us: number): string {
  if (us < 1000) return us.toFixed(0) + " µs";
  if (us < 1e6) return (us / 1e3).toFixed(us < 1e4 ? 2 : 1) + " ms";
  if (us < 120e6) return (us / 1e6).toFixed(us < 1e7 ? 2 : 1) + " s";
  return (us / 60e6).toFixed(1) + " min";
}

export function base(path: string): string {
  return path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1);
}

export function certainty(c: number): string {
  const word = c >= 0.95 ? "certain" : c >= 0.85 ? "very likely" : c >= 0.7 ? "likely" : c >= 0.5 ? "possible" : "a hint";
  return word + ", " + (100 * c).toFixed(0) + " %";
}

// ticks chooses round values from 0 up: powers of two of a unit, so that labels read 2, 4, 6 GiB.
export function ticks(top: number, about: number): { values: number[]; unit: number; decimals: number } {
  const unit = unitOf(top);
  const scale = 1024 ** unit;
  let step = 2 ** Math.round(Math.log2(Math.max(top / scale / about, 1e-9)));
  if (step < 1 && unit > 0) step = Math.max(step, 1 / 16);
  const values: number[] = [];
  for (let v = 0; v * scale <= top * 1.0001 && values.length < 40; v += step) values.push(v * scale);
  return { values, unit, decimals: step >= 1 ? 0 : step === 0.5 ? 1 : 2 };
}

// roundStep is the smallest of 1, 2 and 5 times a power of ten that is no smaller than a number.
export function roundStep(least: number): number {
  const magnitude = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((m) => m * magnitude).find((s) => s >= least) || 10 * magnitude;
}

// roundTicks chooses round numbers in a range: 1, 2 or 5 times a power of ten.
export function roundTicks(from: number, to: number, about: number): number[] {
  const step = roundStep((to - from) / Math.max(1, about));
  const out: number[] = [];
  for (let v = Math.ceil(from / step) * step; v <= to && out.length < 50; v += step) out.push(v);
  return out;
}
