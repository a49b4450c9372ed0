// A whole run: what is allocated and held after every batch, where the allocator releases its cache, where the run dies, and what would make it safe.

import { h, replace, swatch } from "./dom";
import { count, size } from "./format";
import { colorOf, css, trouble } from "./palette";
import { Plot, chart, limit, plot, tag } from "./plot";
import { Prediction, Run, RunMoment } from "./source";

const held = "#C9C9C2";

export function overRun(p: Prediction, run: Run): HTMLElement | null {
  const all = run.curve || [];
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
    replace(legend, item(used, "allocated", size(m.allocated, 1)), item(held, "reserved by PyTorch", size(m.reserved, 1)), item(trouble, "cache released", count(m.retries || 0)));
  };
  const draw = (canvas: HTMLCanvasElement) => {
    const most = Math.max(...all.map((m) => Math.max(m.reserved, m.allocated)));
    const room = run.limited.room, high = (room < 2.2 * most ? Math.max(most, room) : most) * 1.1;
    const area = plot(canvas, margin, 0, high);
    const X = (step: number) => area.left + ((step - 1) / Math.max(1, last)) * area.w;
    bars(area, X, all, (m) => m.reserved, held);
    bars(area, X, all, (m) => m.allocated, used);
    for (const m of all) if (m.retries) { area.g.fillStyle = trouble; area.g.fillRect(Math.round(X(m.step)), area.top + area.h, 2, 8); }
    if (room <= high) limit(area, room);
    const f = run.fails_at;
    if (f) {
      area.g.fillStyle = trouble;
      area.g.fillRect(Math.round(X(f.step)), area.top, 2, area.h);
      tag(area, "dies at step " + count(f.step), X(f.step) + 8, area.top + 12, X(f.step) > area.left + area.w * 0.7 ? "right" : "left");
    }
    area.g.fillStyle = css("--muted");
    area.g.textBaseline = "middle";
    area.g.textAlign = "left";
    area.g.fillText("step 1", area.left, area.top + area.h + 16);
    area.g.textAlign = "right";
    area.g.fillText("step " + count(last), area.left + area.w, area.top + area.h + 16);
  };
  const canvas = chart("Predicted memory over the whole run: allocated and held, with the limit.", draw);
  canvas.addEventListener("pointermove", (e) => {
    const step = 1 + ((e.offsetX - margin.left) / Math.max(1, canvas.clientWidth - margin.left - margin.right)) * last;
    cursor = all.findIndex((m) => m.step >= step);
    tell();
  });
  canvas.addEventListener("pointerleave", () => { cursor = -1; tell(); });
  tell();
  return h("section", { class: "card", id: "run" }, h("div", { class: "bar-row" }, h("h2", {}, "Memory over the run")), canvas, h("div", { class: "key" }, readout, legend));
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
