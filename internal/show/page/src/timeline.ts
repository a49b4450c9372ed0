// The memory of the run over events or time: a stack of bands, what is held, the limit, failures and steps.

import { canvas2d, h } from "./dom";
import { duration, inUnit, roundStep, roundTicks, size, count, ticks } from "./format";
import { colorOf, css, faded, ink, readable, stackOrder, trouble } from "./palette";
import { Curve, Overview, Source } from "./source";
import { Gestures, Range } from "./gestures";

export interface Shown { d: number; by: string; word: string; axis: string }
export interface Overlay { conf: string; at: number[]; held: number[] }
export interface Spot { name: string; bytes: number } // in a band, so many bytes above its lower edge
export interface Reading { names: string[]; values: number[]; high: number; low: number; reserved: number; event: number; from: number; to: number; exact: boolean }

const left = 68, right = 8, top = 44, bottom = 26;
const phaseRow = 14; // height of the row of phases above the plot

export class Timeline {
  readonly canvas = h("canvas", { class: "chart", tabindex: "0", role: "img", "aria-label": "Memory over time. Arrow keys pan, plus and minus zoom, comma and full stop step through events. Click to look at an instant, and at the tensor under the pointer." });
  readonly strip = h("canvas", { class: "strip", "aria-hidden": "true" });
  range: Range = { from: 0, to: 1 };
  curve: Curve | null = null;
  private whole: Curve | null = null;
  private shown: Shown = { d: 0, by: "category", word: "", axis: "event" };
  private overview!: Overview;
  private limit = 0;
  private limitNote = "";
  private overlay: Overlay | null = null;
  private cursor = -1; // x in pixels; -1: the pointer is elsewhere
  private at = -1;
  private atTime = NaN; // not a number: not known yet
  private asking = false;
  private again = false;
  private pending = 0;
  private generation = 0;

  constructor(private source: Source, private onRange: () => void, private onPick: (event: number, spot: Spot | null) => void, private onRead: () => void) {
    new Gestures(this.canvas, {
      plot: () => ({ left, width: this.plotWidth() }), range: () => this.range,
      move: (r) => this.show(r), hover: (x) => { this.cursor = x; this.draw(); this.onRead(); },
      click: (x, y) => this.pick(x, y),
    });
    this.strip.addEventListener("pointerdown", (e) => this.dragStrip(e));
    new ResizeObserver(() => { this.refresh(); this.draw(); }).observe(this.canvas);
  }

  end(): number { return this.shown.axis === "time" ? this.overview.duration_us + 1 : this.overview.events; }

  async open(overview: Overview, shown: Shown, range: Range | null): Promise<void> {
    this.overview = overview;
    this.shown = shown;
    this.curve = null;
    const generation = ++this.generation;
    this.range = this.clamp(range || { from: 0, to: this.end() });
    const whole = await this.ask(0, this.end(), 1200);
    if (generation !== this.generation) return;
    this.whole = whole;
    if (this.range.from === 0 && this.range.to === this.end()) this.curve = whole;
    else this.refresh();
    this.draw();
    this.onRead();
    performance.mark("picture");
  }

  setLimit(bytes: number, note: string): void { this.limit = bytes; this.limitNote = note; this.draw(); }
  setOverlay(o: Overlay | null): void { this.overlay = o; this.draw(); }
  setAt(event: number, time: number): void { this.at = event; this.atTime = time; this.draw(); }

  show(r: Range): void {
    this.range = this.clamp(r);
    this.refresh();
    this.draw();
    this.onRange();
    this.onRead();
  }
  zoom(factor: number, center = (this.range.from + this.range.to) / 2): void {
    this.show({ from: center - (center - this.range.from) * factor, to: center + (this.range.to - center) * factor });
  }
  pan(share: number): void {
    const by = (this.range.to - this.range.from) * share;
    this.show(this.inside({ from: this.range.from + by, to: this.range.to + by }));
  }
  reset(): void { this.show({ from: 0, to: this.end() }); }

  // xOf gives an event's place on the axis.
  xOf(event: number, time: number): number { return this.shown.axis === "time" ? time : event + 0.5; }

  private inside(r: Range): Range {
    const width = Math.min(r.to - r.from, this.end());
    const from = Math.max(0, Math.min(r.from, this.end() - width));
    return { from, to: from + width };
  }
  private clamp(r: Range): Range {
    const least = Math.min(this.end(), this.shown.axis === "time" ? 10 : 8);
    let { from, to } = r;
    if (!(to - from >= least)) { const c = (from + to) / 2 || 0; from = c - least / 2; to = c + least / 2; }
    return this.inside({ from, to });
  }
  private plotWidth(): number { return Math.max(10, this.canvas.clientWidth - left - right); }

  private ask(from: number, to: number, columns: number): Promise<Curve> {
    const s = this.shown;
    return this.source.curve(s.d, s.by, s.word, s.axis, from, to, columns);
  }

  // refresh asks for the curve in view where what is at hand is too coarse or too narrow. One question is under way at a time.
  refresh(): void {
    if (!this.overview || !this.overview.events) return;
    const c = this.curve, r = this.range, columns = this.plotWidth();
    if (c && c.from <= r.from + 1e-6 && c.to >= r.to - 1e-6) {
      const have = (c.columns * (r.to - r.from)) / (c.to - c.from);
      if (c.exact || have >= 0.8 * columns) return;
    }
    if (this.asking) { this.again = true; return; }
    this.asking = true;
    const generation = this.generation, margin = (r.to - r.from) / 2, began = performance.now();
    this.ask(Math.max(0, r.from - margin), Math.min(this.end(), r.to + margin), 2 * columns).then((c) => {
      this.asking = false;
      if (generation === this.generation) {
        this.curve = c;
        performance.measure("fresh", { start: began });
        this.draw();
        this.onRead();
      }
      if (this.again) { this.again = false; if (!this.source.stored) this.refresh(); }
    }, () => { this.asking = false; });
  }

  // inView gives the columns of a curve that are on the screen.
  inView(c: Curve): [number, number] {
    const width = (c.to - c.from) / c.columns;
    const a = Math.max(0, Math.min(c.columns - 1, Math.floor((this.range.from - c.from) / width + 1e-9)));
    return [a, Math.max(a + 1, Math.min(c.columns, Math.ceil((this.range.to - c.from) / width - 1e-9)))];
  }

  private pick(x: number, y: number): void {
    const r = this.readAt(x);
    if (r) this.onPick(r.event, this.spot(r, y));
  }

  // spot is what lies at a height of the stack: the band, and how far up in it.
  private spot(r: Reading, y: number): Spot | null {
    const c = this.curve || this.whole, plotHeight = this.canvas.clientHeight - top - bottom;
    if (!c || y < top || y > top + plotHeight) return null;
    let bytes = ((top + plotHeight - y) / plotHeight) * this.highest(c);
    for (const band of stackOrder(r.names)) {
      if (bytes < r.values[band]) return { name: r.names[band], bytes };
      bytes -= r.values[band];
    }
    return null;
  }

  // read gives the values under the pointer, or at the instant that was picked, or nothing.
  read(): Reading | null { return this.cursor >= 0 ? this.readAt(this.cursor) : null; }

  private readAt(x: number): Reading | null {
    const c = this.curve || this.whole;
    if (!c || !c.columns) return null;
    const value = this.range.from + ((x - left) / this.plotWidth()) * (this.range.to - this.range.from);
    const i = Math.floor(((value - c.from) / (c.to - c.from)) * c.columns);
    if (i < 0 || i >= c.columns) return null;
    const width = (c.to - c.from) / c.columns;
    return {
      names: c.names, values: c.bands.map((b) => b[i]), high: c.high[i], low: c.low[i], reserved: c.reserved[i], event: c.event[i],
      from: c.from + i * width, to: c.from + (i + 1) * width, exact: c.exact,
    };
  }

  draw(): void {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      const began = performance.now();
      this.paint();
      this.paintStrip();
      performance.measure("frame", { start: began });
    });
  }

  private paint(): void {
    const { g, width, height } = canvas2d(this.canvas);
    const c = this.curve || this.whole;
    g.font = "12px " + css("--sans");
    if (!c || !c.columns) return;
    const plot = { w: width - left - right, h: height - top - bottom };
    const r = this.range;
    const X = (v: number) => left + ((v - r.from) / (r.to - r.from)) * plot.w;
    const high = this.highest(c);
    const Y = (v: number) => top + plot.h - (v / high) * plot.h;
    this.grid(g, width, plot.h, high, Y);
    g.save();
    g.beginPath();
    g.rect(left, top, plot.w, plot.h);
    g.clip();
    this.steps(g, X, plot.h, false);
    this.bands(g, c, X, Y);
    this.lines(g, c, X, Y);
    g.restore();
    this.marks(g, X, Y, plot);
    this.axis(g, X, plot);
  }

  // highest is the top of the scale: everything in view, and the limit where it is near.
  private highest(c: Curve): number {
    const [a, b] = this.inView(c);
    let high = 1;
    for (let i = a; i < b; i++) high = Math.max(high, c.high[i], c.reserved[i]);
    if (this.overlay) high = Math.max(high, ...this.overlay.held);
    if (this.limit && this.limit < 2.2 * high) high = Math.max(high, this.limit);
    return high * (this.limit ? 1.1 : 1.05);
  }

  private grid(g: CanvasRenderingContext2D, width: number, plotHeight: number, high: number, Y: (v: number) => number): void {
    const { values, unit, decimals } = ticks(high, Math.max(2, plotHeight / 52));
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const v of values) {
      g.fillStyle = css("--grid");
      g.fillRect(left, Math.round(Y(v)), width - left - right, 1);
      g.fillStyle = css("--muted");
      g.fillText(v === 0 ? "0" : inUnit(v, unit, decimals), left - 10, Y(v));
    }
  }

  private bands(g: CanvasRenderingContext2D, c: Curve, X: (v: number) => number, Y: (v: number) => number): void {
    const width = (c.to - c.from) / c.columns;
    const a = Math.max(0, Math.floor((this.range.from - c.from) / width) - 1), b = Math.min(c.columns, Math.ceil((this.range.to - c.from) / width) + 1);
    const base = new Float64Array(c.columns);
    for (const band of stackOrder(c.names)) {
      const values = c.bands[band];
      let any = false;
      for (let i = a; i < b && !any; i++) any = values[i] > 0;
      if (!any) continue;
      g.beginPath();
      g.moveTo(X(c.from + a * width), Y(base[a]));
      for (let i = a; i < b; i++) {
        const y = Y(base[i] + values[i]), x = X(c.from + i * width);
        g.lineTo(x, y);
        g.lineTo(X(c.from + (i + 1) * width), y);
      }
      for (let i = b - 1; i >= a; i--) {
        const y = Y(base[i]);
        g.lineTo(X(c.from + (i + 1) * width), y);
        g.lineTo(X(c.from + i * width), y);
        base[i] += values[i];
      }
      g.fillStyle = colorOf(c.names[band], band);
      g.fill();
    }
  }

  private stepLine(g: CanvasRenderingContext2D, c: Curve, values: number[], X: (v: number) => number, Y: (v: number) => number): void {
    const width = (c.to - c.from) / c.columns;
    g.beginPath();
    for (let i = 0; i < c.columns; i++) {
      g.lineTo(X(c.from + i * width), Y(values[i]));
      g.lineTo(X(c.from + (i + 1) * width), Y(values[i]));
    }
    g.stroke();
  }

  private lines(g: CanvasRenderingContext2D, c: Curve, X: (v: number) => number, Y: (v: number) => number): void {
    if (!c.exact && (this.range.to - this.range.from) / (c.to - c.from) * c.columns > 60) {
      g.strokeStyle = "rgba(20,20,18,0.28)"; // how far memory falls inside a column
      g.lineWidth = 1;
      this.stepLine(g, c, c.low, X, Y);
    }
    g.strokeStyle = css("--ink");
    g.lineWidth = 1.5;
    this.stepLine(g, c, c.reserved, X, Y);
    if (!this.overlay) return;
    g.strokeStyle = css("--overlay");
    g.lineWidth = 2;
    g.setLineDash([5, 3]);
    g.beginPath();
    for (let i = 0; i < this.overlay.held.length; i++) {
      if (this.overlay.held[i] < 0) break;
      g.lineTo(X(this.overlay.at[i]), Y(this.overlay.held[i]));
      g.lineTo(X(this.overlay.at[i + 1]), Y(this.overlay.held[i]));
    }
    g.stroke();
    g.setLineDash([]);
  }

  private steps(g: CanvasRenderingContext2D, X: (v: number) => number, plotHeight: number, labels: boolean): void {
    const all = this.overview.steps;
    if (this.shown.axis === "time" || all.length === 0) return;
    let last = -1e9;
    const gap = labels ? g.measureText(String(all.length)).width + 10 : 5;
    const inside = (x: number) => x >= left - 1 && x <= left + this.plotWidth() + 1;
    const every = labels ? roundStep(gap * all.filter((e) => inside(X(e + 1))).length / this.plotWidth()) : 1;
    g.textAlign = "center";
    g.textBaseline = "alphabetic";
    for (let k = 0; k < all.length; k++) {
      const x = X(all[k] + 1);
      if ((k + 1) % every || x - last < gap || !inside(x)) continue;
      last = x;
      if (labels) {
        g.fillStyle = css("--muted");
        g.fillRect(Math.round(x), top - phaseRow - 10, 1, 5);
        const text = String(k + 1), half = g.measureText(text).width / 2;
        g.fillText(text, Math.max(left + half, Math.min(left + this.plotWidth() + right - half, x)), top - phaseRow - 14);
      } else {
        g.fillStyle = css("--grid");
        g.fillRect(Math.round(x), top, 1, plotHeight);
      }
    }
  }

  private marks(g: CanvasRenderingContext2D, X: (v: number) => number, Y: (v: number) => number, plot: { w: number; h: number }): void {
    this.steps(g, X, plot.h, true);
    this.phases(g, X, plot.w);
    if (this.overview.steps.length && this.shown.axis !== "time") {
      g.fillStyle = css("--muted");
      g.textAlign = "right";
      g.textBaseline = "alphabetic";
      g.fillText("step", left - 10, top - phaseRow - 14);
    }
    const inside = (x: number) => x >= left - 1 && x <= left + plot.w + 1;
    if (this.limit && Y(this.limit) > top - 2) {
      g.strokeStyle = trouble;
      g.lineWidth = 1.5;
      g.setLineDash([7, 4]);
      g.beginPath();
      g.moveTo(left, Y(this.limit));
      g.lineTo(left + plot.w, Y(this.limit));
      g.stroke();
      g.setLineDash([]);
      this.tag(g, "limit " + size(this.limit) + this.limitNote, left + 8, Y(this.limit) - 11, "left");
    }
    for (const f of this.overview.failures) {
      const x = X(this.xOf(f.event, f.time_us));
      if (!inside(x)) continue;
      g.fillStyle = trouble;
      g.fillRect(Math.round(x) - 1, top, 2, plot.h);
      g.beginPath();
      g.moveTo(x - 6, top);
      g.lineTo(x + 6, top);
      g.lineTo(x, top + 9);
      g.fill();
      if (f === this.overview.failures[this.overview.failures.length - 1]) {
        const near = x > left + plot.w / 2, text = "out of memory: " + size(f.requested) + " requested";
        const row = this.limit ? Y(this.limit) - 11 : top + 12; // beside the label of the limit, below it where there is no room
        const room = near ? x - left : left + plot.w - x;
        this.tag(g, text, x + (near ? -12 : 12), room > g.measureText(text).width + 190 ? row : row + 40, near ? "right" : "left");
      }
    }
    if (this.shown.axis !== "time" || !Number.isNaN(this.atTime)) {
      const x = X(this.xOf(this.at, this.atTime));
      if (inside(x)) {
        g.fillStyle = css("--ink");
        g.fillRect(Math.round(x), top - 2, 1, plot.h + 4);
        g.beginPath();
        g.arc(Math.round(x) + 0.5, top + plot.h + 4, 4, 0, 7);
        g.fill();
      }
    }
    if (this.cursor >= left && this.cursor <= left + plot.w) {
      g.fillStyle = css("--muted");
      g.fillRect(Math.round(this.cursor), top, 1, plot.h);
    }
  }

  // phases is a row of what the program was doing, where stacks tell it.
  private phases(g: CanvasRenderingContext2D, X: (v: number) => number, w: number): void {
    const c = this.curve || this.whole;
    if (!c) return;
    const codes = atob(c.phase), width = (c.to - c.from) / c.columns, y = top - phaseRow - 4;
    g.save();
    g.textBaseline = "middle";
    g.font = "11px " + css("--sans");
    for (let i = 0; i < c.columns;) {
      let end = i + 1;
      while (end < c.columns && codes[end] === codes[i]) end++;
      const name = c.phases[codes.charCodeAt(i)], a = Math.max(left, X(c.from + i * width)), b = Math.min(left + w, X(c.from + end * width));
      i = end;
      if (b <= a || name === "other") continue;
      const color = faded(colorOf(name, 0), 0.8, css("--card"));
      g.fillStyle = color;
      g.fillRect(a, y, Math.max(0.6, b - a - (b - a > 4 ? 0.5 : 0)), phaseRow);
      if (b - a < g.measureText(name).width + 6) continue;
      g.fillStyle = ink(color);
      g.textAlign = "center";
      g.fillText(name, (a + b) / 2, y + phaseRow / 2 + 0.5);
    }
    g.restore();
  }

  private tag(g: CanvasRenderingContext2D, text: string, x: number, y: number, align: CanvasTextAlign): void {
    const w = g.measureText(text).width + 10;
    g.fillStyle = css("--card");
    g.fillRect(align === "left" ? x - 5 : x - w + 5, y - 9, w, 18);
    g.fillStyle = readable(css("--bad"), css("--card"));
    g.textAlign = align;
    g.textBaseline = "middle";
    g.fillText(text, x, y);
  }

  private axis(g: CanvasRenderingContext2D, X: (v: number) => number, plot: { w: number; h: number }): void {
    const byTime = this.shown.axis === "time";
    g.fillStyle = css("--muted");
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const v of roundTicks(this.range.from, this.range.to, plot.w / 110)) {
      const x = X(byTime ? v : v + 0.5), text = byTime ? duration(v) : count(v);
      g.fillRect(Math.round(x), top + plot.h, 1, 4);
      const w = g.measureText(text).width / 2;
      g.fillText(text, Math.max(left + w, Math.min(left + plot.w - w, x)), top + plot.h + 9);
    }
    g.textAlign = "right";
    g.fillText(byTime ? "time" : "event", left - 10, top + plot.h + 9);
  }

  // The strip shows the whole run and where the view lies in it.
  private paintStrip(): void {
    const { g, height } = canvas2d(this.strip);
    const c = this.whole, w = this.plotWidth();
    if (!c || !c.columns) return;
    const high = Math.max(1, ...c.high), end = this.end();
    g.beginPath();
    g.moveTo(left, height);
    for (let i = 0; i < c.columns; i++) {
      const y = height - (c.high[i] / high) * (height - 4);
      g.lineTo(left + (i / c.columns) * w, y);
      g.lineTo(left + ((i + 1) / c.columns) * w, y);
    }
    g.lineTo(left + w, height);
    g.fillStyle = css("--strip");
    g.fill();
    for (const f of this.overview.failures) {
      g.fillStyle = trouble;
      g.fillRect(left + (this.xOf(f.event, f.time_us) / end) * w - 1, 0, 2, height);
    }
    const a = left + (this.range.from / end) * w, b = left + (this.range.to / end) * w;
    g.fillStyle = css("--veil");
    g.fillRect(left, 0, a - left, height);
    g.fillRect(b, 0, left + w - b, height);
    g.strokeStyle = css("--ink");
    g.lineWidth = 1;
    g.strokeRect(Math.round(a) + 0.5, 0.5, Math.max(3, Math.round(b - a) - 1), height - 1);
  }

  private dragStrip(down: PointerEvent): void {
    const move = (e: PointerEvent) => {
      const x = e.clientX - this.strip.getBoundingClientRect().left;
      const center = ((x - left) / this.plotWidth()) * this.end(), half = (this.range.to - this.range.from) / 2;
      this.show(this.inside({ from: center - half, to: center + half }));
    };
    this.strip.setPointerCapture(down.pointerId);
    this.strip.addEventListener("pointermove", move);
    this.strip.addEventListener("pointerup", () => this.strip.removeEventListener("pointermove", move), { once: true });
    move(down);
  }
}

