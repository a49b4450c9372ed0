// Where answers come from: a server on this machine, or the data in the page's own file.

export interface Place { file: string; line: number; function: string }
export interface Instant { event: number; time_us: number; step: number; steps: number; in_use: number; reserved: number }
export interface Overview {
  input: string; device: number; events: number; duration_us: number; peak: Instant; steps: number[];
  failures: { event: number; time_us: number; requested: number }[]; groups: string[];
}
export interface Curve {
  by: string; names: string[]; by_time: boolean; from: number; to: number; columns: number; exact: boolean;
  bands: number[][]; low: number[]; high: number[]; event: number[]; phases: string[]; phase: string; reserved: number[];
}
export interface Row {
  bytes: number; count: number; category: string; where?: Place; name: string; frames: number[]; oldest: number; largest: number[] | null;
}
export interface FlameNode { f: number; n?: string; v: number; c: string; k?: FlameNode[] }
export interface Alive extends Instant {
  count: number; by_category: Record<string, number>; waiting: number; rows: Row[]; more_rows: number; flame: FlameNode; frames: Place[];
}
export interface Block { o: number; s: number; i: number; n: number; c: string }
export interface Segment {
  address: string; size: number; used: number; count: number; expandable: boolean; private: boolean; pin: number; blocks: Block[];
}
export interface MemoryMap extends Instant { used: number; cached: number; pinned: number; segments: Segment[]; more_segments: number }
export interface Allocation {
  id: number; bytes: number; address: string; category: string; phase: string; stream: number; pool: number; born?: Instant; died?: Instant;
  frames: Place[]; name: string; alike: number; holder?: { title: string; name?: string; part?: string; also?: string[] };
}
export interface Happening { event: number; kind: string; bytes: number; id: number; category?: string; where?: Place; name?: string }
export interface WhatIf { replay?: any; refuse?: string; event: number[]; time_us: number[]; curves: { conf: string; held: number[] }[] }
export interface Plan {
  micro_batch: number; accumulate: number; precision: string; checkpointing: string; checkpoint_layers?: number; layers?: number; optimizer: string; attn?: string; loop?: string;
  alloc_conf?: string; offload?: string; gpus: number; sharding?: string; tensor?: number; stages?: number; peak: { device: number }; headroom: number; step_ms: number; uncertainty: number;
  fits: boolean; changes_numerics: boolean; why: string; changes: string[] | null;
}
export interface Fit {
  title: string; card: string; gpus: number; params: number; capacity: number; effective_batch: number; considered: number; predicted: number;
  plans: Plan[] | null; alternatives: { what: string; why: string }[] | null; numerics?: Plan; least?: { action: string; changes_numerics?: boolean }[];
  warnings: string[] | null; assumptions: string[] | null;
}
export type Sizes = Record<string, number>;
export interface Peak { allocated: number; reserved: number; device: number }
export interface Moment { event: number; step: number; phase: string; requested: number; by_category: Sizes | null }
export interface Need { batch: number; own?: boolean; peak: Peak; safe: number; phase: string; step: number; by_category: Sizes | null; fits: boolean; where?: string }
export interface Prediction extends Omit<Need, "batch"> {
  title?: string; card?: string; params: number; capacity: number; phases: Sizes | null; after_load: number;
  largest?: { batch: number; seq?: number }; timeline?: Moment[]; batches?: Need[];
  top?: { category: string; module: string; bytes: number; count: number }[]; sharded?: { allocated: number; safe: number; fits: boolean; assumptions: string[] | null };
  assumptions: string[] | null; unknown_operators?: string[]; verdict?: string; run?: Run;
}
export interface RunMoment { step: number; evaluation?: boolean; longest: number; allocated: number; reserved: number; retries?: number }
export interface Run {
  steps: number; orders: number; failing: number; max_allocated: number; max_reserved: number; limited: { room: number; reserved: number; retries: number }; fails_at: { step: number; evaluation?: boolean; shape: number[] } | null;
  curve?: RunMoment[]; free?: RunMoment[]; remedies?: { action: string; reserved: number; retries: number; failing: number; orders: number; completes: boolean }[];
}
export interface Summary { kind: string; headline: string; about: number; report?: any; diff?: any; prediction?: Prediction; fit?: Fit }

export interface Source {
  stored: boolean;
  summary(): Promise<Summary>;
  overview(): Promise<Overview[]>;
  curve(d: number, by: string, word: string, axis: string, from: number, to: number, columns: number): Promise<Curve>;
  alive(d: number, at: number): Promise<Alive>;
  map(d: number, at: number): Promise<MemoryMap>;
  allocation(d: number, id: number): Promise<Allocation>;
  events(d: number, at: number, n: number): Promise<Happening[]>;
  whatif(d: number): Promise<WhatIf>;
}

export async function open(): Promise<Source> {
  const element = document.getElementById("data");
  return element ? new Stored(JSON.parse(await unpacked(element.textContent || ""))) : new Server();
}

// unpacked undoes base64 and gzip: what a file carries is an eighth of its size that way.
async function unpacked(text: string): Promise<string> {
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

class Server implements Source {
  stored = false;

  private async ask(name: string, query: Record<string, string | number> = {}): Promise<any> {
    const text = new URLSearchParams(Object.entries(query).map(([k, v]) => [k, String(v)])).toString();
    const response = await fetch("api/" + name + (text ? "?" + text : ""));
    const value = await response.json();
    if (!response.ok) throw new Error(value.error);
    return value;
  }
  summary() { return this.ask("summary"); }
  overview() { return this.ask("overview"); }
  curve(d: number, by: string, word: string, axis: string, from: number, to: number, columns: number) {
    return this.ask("curve", { d, by, word, axis, from, to, columns });
  }
  alive(d: number, at: number) { return this.ask("alive", { d, at }); }
  map(d: number, at: number) { return this.ask("map", { d, at }); }
  allocation(d: number, id: number) { return this.ask("allocation", { d, at: id }); }
  events(d: number, at: number, n: number) { return this.ask("events", { d, at, n }); }
  whatif(d: number) { return this.ask("whatif", { d }); }
}

// Stored cuts its answers out of what was computed when the file was written.
class Stored implements Source {
  stored = true;
  constructor(private doc: any) {}

  async summary() { return this.doc.summary; }
  async overview() { return this.doc.overview; }

  async curve(d: number, by: string, _word: string, axis: string, from: number, to: number, columns: number): Promise<Curve> {
    const levels: Curve[] = this.doc.data[d].curves[by + " " + axis] || this.doc.data[d].curves["category event"];
    const share = (c: Curve) => (c.columns * (to - from)) / Math.max(1, c.to - c.from);
    return cut(levels.find((c) => share(c) >= columns) || levels[levels.length - 1], from, to);
  }
  private nearest(d: number, at: number): number {
    const all: Alive[] = this.doc.data[d].instants;
    let best = 0;
    all.forEach((a, i) => { if (Math.abs(a.event - at) < Math.abs(all[best].event - at)) best = i; });
    return best;
  }
  async alive(d: number, at: number) { return this.doc.data[d].instants[this.nearest(d, at)]; }
  async map(d: number, at: number) { return this.doc.data[d].maps[this.nearest(d, at)]; }
  async allocation(d: number, id: number) {
    const found = this.doc.data[d].allocations[id];
    if (!found) throw new Error("this file does not carry that allocation; plimsoll view shows it");
    return found;
  }
  async events(d: number, at: number, n: number) {
    return this.doc.data[d].events.filter((e: Happening) => e.event >= at).slice(0, n);
  }
  async whatif(d: number) { return this.doc.data[d].whatif; }
}

function cut(c: Curve, from: number, to: number): Curve {
  const width = (c.to - c.from) / c.columns;
  const a = Math.max(0, Math.floor((from - c.from) / width)), b = Math.min(c.columns, Math.ceil((to - c.from) / width));
  const part = (list: number[]) => list.slice(a, b);
  return {
    ...c, from: c.from + a * width, to: c.from + b * width, columns: b - a, bands: c.bands.map(part),
    low: part(c.low), high: part(c.high), event: part(c.event), reserved: part(c.reserved),
    phase: btoa(atob(c.phase).slice(a, b)),
  };
}
