// Plans: memory against the time of a step, each a mark whose form and colour say whether it trains the same.

import { breakable, h, replace, region } from "./dom";
import { count, duration, roundTicks, size } from "./format";
import { css, trouble } from "./palette";
import { Plot, chart, limit, plot } from "./plot";
import { tile } from "./report";
import { Fit, Plan } from "./source";

const same = "#0072B2", other = "#E69F00";
const most = 300; // plans on a page; fit gives fewer

export function planned(f: Fit): HTMLElement[] {
  const all = (f.plans || []).slice(0, most), best = all.findIndex((p) => p.fits);
  const shown = f.numerics ? [...all, f.numerics] : all;
  const scatter = new Scatter(f, shown, best);
  return [
    h("p", { class: "lead" }, [f.title, count(f.params) + " parameters", "effective batch " + count(f.effective_batch), (f.gpus > 1 ? f.gpus + " × " : "") + f.card, size(f.capacity)].join(" · ")),
    h("div", { id: "numbers" }, tiles(f, all[best])),
    h("div", { class: "columns" },
      h("div", { class: "middle" },
        list("The least that would fit", (f.least || []).map((l) => l.action + (l.changes_numerics ? " (changes numerics)" : ""))),
        shown.length > 0 && h("section", { class: "card", id: "scatter" }, h("div", { class: "bar-row" }, h("h2", {}, "Memory against the time of a step"), h("span", { class: "grow" }), key()), scatter.canvas, scatter.readout),
        shown.length > 0 && h("section", { class: "card" }, h("h2", {}, "Plans, best first"), scatter.table())),
      h("div", { class: "side-box" }, best >= 0 && changes("Recommended plan", all[best]), f.numerics && changes("If numerics might change", f.numerics),
        list("Also tried", (f.alternatives || []).map((a) => a.what + ": " + a.why)), list("Notes", f.warnings), list("Assumed", f.assumptions))),
  ];
}

function tiles(f: Fit, best: Plan | undefined): HTMLElement {
  const out = h("div", { class: "tiles" });
  if (best) {
    out.append(tile(duration(1000 * best.step_ms), "a step, ± " + (100 * best.uncertainty).toFixed(0) + " %", { "data-step-ms": best.step_ms }));
    out.append(tile(size(best.peak.device), "needed", { "data-device": best.peak.device }));
    out.append(tile(size(f.capacity - best.headroom), "needed at most"));
  } else out.append(tile("none", "of the plans fits", {}, true));
  out.append(tile(size(f.capacity), "available", { "data-capacity": f.capacity }));
  out.append(tile(count(f.considered), "configurations considered"));
  return out;
}

function changes(title: string, p: Plan): HTMLElement {
  return h("section", { class: "card" }, h("h2", {}, title), h("p", { class: "lead" }, describe(p)),
    h("ul", { class: "plain" }, ...(p.changes || []).map((c) => h("li", {}, c))));
}

function list(title: string, all: string[] | null): HTMLElement | null {
  return all && all.length ? h("section", { class: "card" }, h("h2", {}, title), h("ul", { class: "plain" }, ...all.map((t) => h("li", {}, t)))) : null;
}

function checkpointing(p: Plan): string {
  return p.checkpoint_layers ? p.checkpoint_layers + " of " + p.layers + " layers" : p.checkpointing;
}

function extras(p: Plan): string {
  return [p.attn, p.loop === "plain" ? "plain loop" : "", p.alloc_conf, p.offload ? (p.offload === "both" ? "optimizer and activations" : p.offload) + " on the host" : "",
    (p.tensor ?? 1) > 1 ? "tensor parallel " + p.tensor : "", (p.stages ?? 1) > 1 ? p.stages + " stages" : "", p.sharding].filter(Boolean).join(", ");
}

function describe(p: Plan): string {
  return [p.micro_batch + " × " + p.accumulate, p.precision, "checkpointing " + checkpointing(p), p.optimizer, extras(p)].filter(Boolean).join(" · ");
}

function kind(p: Plan): string { return p.changes_numerics ? "changes numerics" : "same training"; }

// icon is the mark of a plan beside its name.
function icon(p: { changes_numerics: boolean; fits: boolean }): HTMLElement {
  const out = h("span", { class: "mark" + (p.changes_numerics ? " diamond" : ""), "aria-hidden": "true" });
  out.style.borderColor = p.changes_numerics ? other : same;
  if (p.fits) out.style.backgroundColor = p.changes_numerics ? other : same;
  return out;
}

function key(): HTMLElement {
  const one = (changes_numerics: boolean, fits: boolean, text: string) => h("span", {}, icon({ changes_numerics, fits }), text);
  return h("div", { class: "marks" }, one(false, true, "same training"), one(true, true, "changes numerics"), one(false, false, "hollow: does not fit"));
}

class Scatter {
  readonly canvas: HTMLCanvasElement;
  readonly readout = h("div", { class: "plan-readout", "aria-live": "polite" });
  private rows: HTMLTableRowElement[] = [];
  private chosen: number;
  private at: [number, number][] = []; // where each plan was drawn

  constructor(private f: Fit, private plans: Plan[], private best: number) {
    this.chosen = Math.max(0, best);
    this.canvas = chart("Plans by the memory they need and the time of a step, with the limit.", () => this.draw());
    this.canvas.addEventListener("pointermove", (e) => this.point(e.offsetX, e.offsetY));
    this.canvas.addEventListener("pointerleave", () => this.choose(Math.max(0, this.best)));
    this.tell();
  }

  private highest(p: Plan): number { return Math.max(p.peak.device, this.f.capacity - p.headroom); }

  private draw(): void {
    const times = this.plans.map((p) => p.step_ms), needs = this.plans.map((p) => this.highest(p));
    const high = 1.06 * Math.max(1, this.f.capacity, ...needs.map((n) => Math.min(n, 2 * this.f.capacity)));
    const least = Math.min(this.f.capacity, ...this.plans.map((p) => p.peak.device));
    const area = plot(this.canvas, { left: 68, right: 14, top: 22, bottom: 40 }, least < 0.4 * high ? 0 : 0.85 * least, high);
    const spread = Math.max(...times, 1) - Math.min(...times, 1e12), pad = spread > 0 ? 0.08 * spread : 1;
    const from = Math.max(0, Math.min(...times, 1e12) - pad), to = Math.max(...times, 1) + pad;
    const X = (ms: number) => area.left + ((ms - from) / Math.max(1e-9, to - from)) * area.w;
    this.axis(area, X, from, to);
    limit(area, this.f.capacity);
    this.at = this.plans.map((p) => [X(p.step_ms), area.Y(Math.min(p.peak.device, high))]);
    for (let i = this.plans.length - 1; i >= 0; i--) this.mark(area, i);
    if (this.plans.length) this.mark(area, this.chosen);
  }

  private axis(area: Plot, X: (ms: number) => number, from: number, to: number): void {
    const { g } = area;
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.fillStyle = css("--muted");
    for (const ms of roundTicks(from, to, Math.max(3, area.w / 110))) {
      g.fillRect(Math.round(X(ms)), area.top + area.h, 1, 5);
      g.fillText(duration(1000 * ms), X(ms), area.top + area.h + 15);
    }
    g.textAlign = "right";
    g.fillText("time of a step", area.left + area.w, area.top + area.h + 32);
  }

  // mark draws a plan, a line from what it needs to what it needs at most, and a ring around the one chosen.
  private mark(area: Plot, i: number): void {
    const { g } = area, p = this.plans[i], [x, y] = this.at[i], color = p.changes_numerics ? other : same, r = i === this.best ? 8 : 6;
    g.strokeStyle = p.fits ? color : trouble;
    g.lineWidth = 1.5;
    g.beginPath();
    g.moveTo(x, y);
    g.lineTo(x, Math.max(area.top, area.Y(this.highest(p))));
    g.stroke();
    g.beginPath();
    if (p.changes_numerics) [[0, -r - 1], [r + 1, 0], [0, r + 1], [-r - 1, 0]].forEach(([dx, dy]) => g.lineTo(x + dx, y + dy));
    else g.arc(x, y, r, 0, 7);
    g.closePath();
    g.fillStyle = p.fits ? color : css("--card");
    g.strokeStyle = p.fits ? css("--card") : color;
    g.fill();
    g.stroke();
    if (i === this.chosen) {
      g.strokeStyle = css("--ink");
      g.lineWidth = 2;
      g.beginPath();
      g.arc(x, y, r + 5, 0, 7);
      g.stroke();
    }
  }

  private point(x: number, y: number): void {
    let near = -1, best = 26;
    this.at.forEach(([px, py], i) => {
      const d = Math.hypot(px - x, py - y);
      if (d < best) [near, best] = [i, d];
    });
    this.choose(near < 0 ? Math.max(0, this.best) : near);
  }

  private choose(i: number): void {
    if (i === this.chosen || !this.plans[i]) return;
    this.chosen = i;
    this.draw();
    this.tell();
  }

  private tell(): void {
    const p = this.plans[this.chosen];
    if (!p) return;
    this.rows.forEach((row, i) => row.classList.toggle("now-plan", i === this.chosen));
    replace(this.readout, h("b", {}, duration(1000 * p.step_ms) + " a step, " + size(p.peak.device) + " needed, " + size(this.f.capacity - p.headroom) + " at most"),
      h("span", { class: "faint" }, kind(p) + (p.why ? " · " + p.why : "")), h("span", {}, describe(p)));
    this.readout.dataset.plan = String(this.chosen);
  }

  table(): HTMLElement {
    const head = ["Plan", "Micro-batch", "Precision", "Checkpointing", "Optimizer"].map((t) => h("th", {}, t));
    const numbers = ["Needed", "At most", "Step"].map((t) => h("th", { class: "number" }, t));
    this.rows = this.plans.map((p, i) => h("tr", {
      tabindex: "0", "data-plan": i, "data-step-ms": p.step_ms, "data-device": p.peak.device, "data-fits": String(p.fits), "data-numerics": String(p.changes_numerics),
      class: i === this.best ? "best" : "", title: kind(p), onpointerenter: () => this.choose(i), onfocus: () => this.choose(i),
    }, h("td", { class: "rank" }, icon(p), i < (this.f.plans || []).length ? String(i + 1) : "≠"), h("td", {}, p.micro_batch + " × " + p.accumulate), h("td", {}, p.precision), h("td", {}, checkpointing(p)), h("td", {}, p.optimizer),
      h("td", { class: "number" }, size(p.peak.device, 1)), h("td", { class: p.fits ? "number" : "number more" }, size(this.f.capacity - p.headroom, 1)), h("td", { class: "number" }, duration(1000 * p.step_ms)),
      h("td", { class: "also faint" }, breakable(extras(p)))));
    this.tell();
    return region("plans", h("table", { class: "rows plans" }, h("thead", {}, h("tr", {}, ...head, ...numbers, h("th", { class: "also" }, "Also"))), h("tbody", {}, ...this.rows)));
  }
}
