// A whole run: what is allocated and held after every batch, where the allocator releases its cache, where the run dies, and what would make it safe.

import { h, replace, swatch } from "./dom";
import { count, size } from "./format";
import { colorOf, css, trouble } from "./palette";
import { Plot, chart, line, plot, tag } from "./plot";
import { tile } from "./report";
import { Prediction, Run, RunMoment } from "./source";

const held = "#C9C9C2";

// numbers are the tiles of a run: what it allocates, what PyTorch would reserve without a limit, and what it may reserve here.
export function runNumbers(p: Prediction, run: Run): HTMLElement {
  const out = h("div", { class: "tiles" });
  out.append(tile(size(run.max_allocated), "allocated at most", { "data-allocated": run.max_allocated }, run.max_allocated > run.limited.room));
  out.append(tile(size(run.max_reserved), "reserved at most on a card without limit", { "data-reserved": run.max_reserved }, !p.fits && run.max_reserved > run.limited.room));
  out.append(tile(size(run.limited.room), "may be reserved here", { "data-room": run.limited.room }));
  if (run.orders > 1) out.append(tile(count(run.failing) + " of " + count(run.orders), "orders of the samples fail", { "data-failing": run.failing }, run.failing > 0));
  return out;
}

export function overRun(p: Prediction, run: Run): HTMLElement | null {
  const all = run.curve || [], free = run.free || [];
  if (!all.length) return null;
  const last = Math.max(run.steps, all[all.length - 1].step), used = colorOf("activations", 0);
  const margin = { left: 68, right: 8, top: 26, bottom: 26 };
  const readout = h("div", { class: "readout", "aria-live": "polite" }), legend = h("div", { class: "legend" });
  let cursor = -1;
  const tell = () => {
    let at = cursor;
    if (at < 0) all.forEach((m, i) => { if (at < 0 || m.allocated > all[at].allocated) at = i; });
    const m = all[at];
    replace(readout, h("div", { class: "value" }, size(m.allocated)), h("div", { class: "label" }, (cursor < 0 ? "highest, " : "") + (m.evaluation ? "evaluation after step " : "step ") + count(m.step) + ", longest sample " + count(m.longest)));
    const item = (c: string, name: string, v: string) => h("div", { class: "item" }, h("div", {}, swatch(c), name), h("div", { class: "amount" }, v));
    const without = at < all.length && free.length ? nearest(free, m.step) : null;
    replace(legend, item(used, "allocated", size(m.allocated, 1)), item(held, "reserved by PyTorch", size(m.reserved, 1)), without && item(css("--muted"), "reserved without a limit", size(without.reserved, 1)),
      item(trouble, "cache released", (m.retries || 0) + "×"));
  };
  const draw = (canvas: HTMLCanvasElement) => {
    const room = run.limited.room, most = Math.max(...all.map((m) => Math.max(m.reserved, m.allocated)), Math.min(run.free ? run.max_reserved : 0, 2 * room));
    const high = (room < 2.2 * most ? Math.max(most, room) : most) * 1.1;
    const area = plot(canvas, margin, 0, high);
    const X = (step: number) => area.left + ((step - 1) / Math.max(1, last)) * area.w;
    bars(area, X, all, (m) => m.reserved, held);
    bars(area, X, all, (m) => m.allocated, used);
    if (free.length) unlimited(area, X, free, high);
    for (const m of all) if (m.retries) { area.g.fillStyle = trouble; area.g.fillRect(Math.round(X(m.step)), area.top + area.h, 2, 8); }
    const f = run.fails_at, late = f !== null && X(f.step) > area.left + area.w * 0.6;
    if (room <= high) {
      line(area, room, trouble, [7, 4]);
      tag(area, "limit " + size(room), f && !late ? area.left + area.w - 8 : area.left + 8, area.Y(room) - 11, f && !late ? "right" : "left");
    }
    if (f) {
      area.g.fillStyle = trouble;
      area.g.fillRect(Math.round(X(f.step)), area.top, 2, area.h);
      tag(area, (f.evaluation ? "fails in the evaluation after step " : "fails at step ") + count(f.step), X(f.step) + (late ? -8 : 10), area.top + area.h - 14, late ? "right" : "left");
    }
    area.g.fillStyle = css("--muted");
    area.g.textBaseline = "middle";
    area.g.textAlign = "left";
    area.g.fillText("step 1", area.left, area.top + area.h + 16);
    area.g.textAlign = "right";
    area.g.fillText("step " + count(last), area.left + area.w, area.top + area.h + 16);
  };
  const canvas = chart("Predicted memory over the whole run: allocated and reserved, with the limit.", draw);
  canvas.addEventListener("pointermove", (e) => {
    const step = 1 + ((e.offsetX - margin.left) / Math.max(1, canvas.clientWidth - margin.left - margin.right)) * last;
    cursor = all.findIndex((m) => m.step >= step);
    tell();
  });
  canvas.addEventListener("pointerleave", () => { cursor = -1; tell(); });
  tell();
  return h("section", { class: "card", id: "run" }, h("div", { class: "bar-row" }, h("h2", {}, "Memory over the run")), canvas, h("div", { class: "key" }, readout, legend));
}

// unlimited is the line of what PyTorch would reserve on a card without limit.
function unlimited(p: Plot, X: (step: number) => number, free: RunMoment[], high: number): void {
  const { g, Y } = p, y = (m: RunMoment) => Y(Math.min(m.reserved, high));
  g.strokeStyle = css("--muted");
  g.lineWidth = 1.5;
  g.beginPath();
  free.forEach((m, i) => {
    if (i === 0) g.moveTo(X(m.step), y(m));
    else g.lineTo(X(m.step), y(free[i - 1]));
    g.lineTo(X(m.step), y(m));
  });
  g.lineTo(p.left + p.w, y(free[free.length - 1]));
  g.stroke();
  tag(p, "without a limit", p.left + p.w - 8, Math.max(p.top - 12, y(free[free.length - 1]) - 11), "right");
}

// nearest is the last moment that is not after a step.
function nearest(all: RunMoment[], step: number): RunMoment {
  let found = all[0];
  for (const m of all) if (m.step <= step) found = m;
  return found;
}

function bars(p: Plot, X: (step: number) => number, all: RunMoment[], value: (m: RunMoment) => number, fill: string): void {
  const { g, Y } = p;
  g.fillStyle = fill;
  all.forEach((m, i) => {
    const from = X(m.step), to = i + 1 < all.length ? X(all[i + 1].step) : X(m.step + 1);
    g.fillRect(from, Y(value(m)), Math.max(1, to - from), p.top + p.h - Y(value(m)));
  });
}

export function safer(run: Run): HTMLElement | null {
  const all = run.remedies || [];
  if (!all.length) return null;
  return h("section", { class: "card" }, h("h2", {}, "What would make it safe"), h("p", { class: "lead" }, "Each was simulated the same way."),
    h("table", { class: "categories" }, ...all.map((r) => h("tr", { "data-completes": r.completes ? 1 : 0 }, h("td", { class: "place" }, r.action),
      h("td", { class: "number" }, size(r.reserved, 1)), h("td", {}, r.completes ? (r.retries ? "completes, cache released " + count(r.retries) + "×" : "completes") : "fails in " + r.failing + " of " + r.orders)))));
}
