// A prediction: whether the job fits, what its memory is for, how it moves through the steps, and other batches.

import { bar, h, replace, swatch } from "./dom";
import { count, percent, size } from "./format";
import { colorOf, css, ink, stackOrder } from "./palette";
import { Plot, chart, limit, line, plot, tag } from "./plot";
import { tile } from "./report";
import { Moment, Need, Prediction, Sizes } from "./source";
import { overRun, runNumbers, safer } from "./wholerun";

const searchEnds = 1 << 16; // a largest batch of so many means at least as many
const unused = "held, not in use";

export function predicted(p: Prediction, headline: HTMLElement): HTMLElement[] {
  const peak = h("div"), tiles = h("div", { id: "numbers" }), own = (p.batches || []).find((b) => b.own), said = headline.textContent || "";
  const steps = overSteps(p);
  // show makes everything speak of the same batch: headline, tiles, parts; the curve has the steps of one batch only, and says so.
  const show = (n: Need | Prediction) => {
    replace(tiles, p.run ? runNumbers(p, p.run) : numbers(p, n));
    replace(peak, breakdown(n, !!p.run));
    const other = "batch" in n && !n.own;
    headline.textContent = other ? sentence(p, n as Need) : said;
    document.body.dataset.batch = "batch" in n ? String(n.batch) : own ? String(own.batch) : "";
    if (!steps) return;
    steps.classList.toggle("elsewhere", other);
    steps.querySelector(".elsewhere-note")!.textContent = other ? "These are the steps of batch " + (own ? own.batch : "asked for") + "; for batch " + (n as Need).batch + " only the peak was predicted." : "";
  };
  show(p);
  return [
    h("p", { class: "lead" }, [p.title, count(p.params) + " parameters", p.card, size(p.capacity)].filter(Boolean).join(" · ")),
    tiles,
    h("div", { class: "columns" },
      h("div", { class: "middle" }, p.run ? overRun(p, p.run) : steps, p.run ? safer(p.run) : null, p.batches && p.batches.length > 1 ? batches(p, p.batches, show) : p.run ? null : hint(p)),
      h("div", { class: "side-box" }, peak, phases(p), largest(p), assumed(p))),
  ];
}

// sentence is the headline for another batch than the one asked about.
function sentence(p: Prediction, n: Need): string {
  const most = n.safe + context(n);
  return n.fits ? "With batch " + count(n.batch) + " it fits: " + size(n.peak.device) + " needed (at most " + size(most) + "), " + size(p.capacity) + " available."
    : "With batch " + count(n.batch) + " it does not fit: " + size(n.peak.device) + " needed (at most " + size(most) + "), " + size(p.capacity) + " available.";
}

function context(n: Need | Prediction): number { return (n.by_category || {}).context || 0; }

function numbers(p: Prediction, n: Need | Prediction): HTMLElement {
  const out = h("div", { class: "tiles" });
  out.append(tile(size(n.peak.device), "needed" + ("batch" in n ? " with batch " + n.batch : ""), { "data-device": n.peak.device }, !n.fits));
  out.append(tile(size(n.safe + context(n)), "needed at most", { "data-safe": n.safe + context(n) }, !n.fits));
  out.append(tile(size(p.capacity), "available", { "data-capacity": p.capacity }));
  if (p.sharded) out.append(tile(size(p.sharded.safe + context(p)), "each of the cards at most", { "data-sharded": p.sharded.safe }, !p.sharded.fits));
  if (p.largest) {
    const most = p.largest.batch;
    out.append(tile(most ? (most >= searchEnds ? "≥ " : "") + count(most) : "none", "largest batch that fits", { "data-largest": most }, !most));
    if (p.largest.seq) out.append(tile(count(p.largest.seq), "longest sequence that fits"));
  }
  return out;
}

// parts are what a peak is made of, what PyTorch holds beyond it included.
function parts(n: Need | Prediction): Sizes {
  const out = { ...(n.by_category || {}) };
  const rest = n.peak.device - Object.values(out).reduce((a, b) => a + b, 0);
  if (rest > 0) out[unused] = rest;
  return out;
}

function color(name: string): string {
  return name === "context" ? "#77777A" : name === unused ? "#C9C9C2" : colorOf(name, 0);
}

function breakdown(n: Need | Prediction, run: boolean): HTMLElement {
  const all = Object.entries(parts(n)).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  const list = h("table", { class: "categories" });
  for (const [name, bytes] of all) {
    list.append(h("tr", { "data-category": name, "data-bytes": bytes, class: bytes ? "" : "none" },
      h("td", {}, swatch(color(name)), name === "context" ? "CUDA context" : name), h("td", { class: "fill" }, bar(bytes / Math.max(1, n.peak.device), color(name))),
      h("td", { class: "number" }, size(bytes, 1)), h("td", { class: "number faint" }, percent(bytes, n.peak.device))));
  }
  const doing = n.phase === "optimizer" ? "in the optimizer" : "in the " + n.phase + " pass";
  return h("section", { class: "card" }, h("h2", {}, run ? "At the peak of the longest batch" : "At the peak"),
    h("p", { class: "lead" }, doing + (run ? ", on a card without limit" : " of step " + n.step) + (n.where ? ", at " + n.where : "") + ("batch" in n ? ", batch " + n.batch : "")), list);
}

function phases(p: Prediction): HTMLElement {
  const order = ["load", "data", "forward", "backward", "optimizer"], rank = (s: string) => (order.indexOf(s) + order.length) % order.length;
  const all = Object.entries(p.phases || {}).sort((a, b) => rank(a[0]) - rank(b[0]));
  const high = Math.max(1, ...all.map(([, v]) => v));
  return h("section", { class: "card" }, h("h2", {}, "Highest in each phase"), h("table", { class: "categories" }, ...all.map(([name, bytes]) =>
    h("tr", { "data-phase": name, "data-bytes": bytes }, h("td", {}, swatch(colorOf(name, 0)), name), h("td", { class: "fill" }, bar(bytes / high, colorOf(name, 0))), h("td", { class: "number" }, size(bytes, 1))))));
}

function largest(p: Prediction): HTMLElement | null {
  if (!p.top || !p.top.length) return null;
  return h("section", { class: "card" }, h("h2", {}, "Largest at the peak"), h("table", { class: "categories" }, ...p.top.slice(0, shownParts).map((t) =>
    h("tr", {}, h("td", { class: "place" }, swatch(color(t.category)), t.module || t.category, t.module ? h("span", { class: "faint" }, " " + t.category) : null), h("td", { class: "number" }, size(t.bytes, 1))))),
    p.top.length > shownParts && h("p", { class: "faint" }, (p.top.length - shownParts) + " smaller not shown"));
}

const shownParts = 8;

function assumed(p: Prediction): HTMLElement | null {
  const all = [...((p.sharded && p.sharded.assumptions) || []), ...(p.assumptions || [])];
  return all.length ? h("section", { class: "card" }, h("h2", {}, "Assumed"), h("ul", { class: "plain" }, ...all.map((a) => h("li", {}, a)))) : null;
}

function hint(p: Prediction): HTMLElement | null {
  return p.timeline ? null : h("section", { class: "card" }, h("h2", {}, "Memory over the steps"),
    h("p", { class: "lead" }, "This answer carries neither the steps nor other batches. plimsoll predict --json --timeline 1000 adds them, and plimsoll view --job shows them at once."));
}

// overSteps draws the predicted run, stacked on the context as it counts against the limit.
function overSteps(p: Prediction): HTMLElement | null {
  const all = p.timeline;
  if (!all || !all.length) return null;
  const names = Object.keys(all[0].by_category || {}), base = context(p);
  const readout = h("div", { class: "readout", "aria-live": "polite" }), legend = h("div", { class: "legend" });
  const order = stackOrder(names).filter((i) => all.some((m) => (m.by_category || {})[names[i]] > 0));
  let top = 0;
  all.forEach((m, i) => { if (m.requested > all[top].requested) top = i; });
  let cursor = -1;
  const margin = { left: 68, right: 8, top: 44, bottom: 10 };
  const tell = () => {
    const m = all[cursor < 0 ? top : cursor];
    replace(readout, h("div", { class: "value" }, size(m.requested + base)), h("div", { class: "label" }, "in use " + (cursor < 0 ? "at the highest, " : "in ") + m.phase + (m.step ? " of step " + m.step : "") +
      (cursor < 0 && p.peak.device > m.requested + base ? "; " + size(p.peak.device) + " with what PyTorch holds and does not use" : "")));
    // Shares are of what is needed, as in the list of the peak.
    const item = (c: string, name: string, v: number) => h("div", { class: "item" }, h("div", {}, swatch(c), name), h("div", { class: "amount" }, size(v, 1), h("span", { class: "faint" }, percent(v, p.peak.device))));
    replace(legend, ...[...order].reverse().map((i) => item(color(names[i]), names[i], (m.by_category || {})[names[i]] || 0)), base > 0 && item(color("context"), "CUDA context", base));
  };
  const draw = (canvas: HTMLCanvasElement) => {
    const need = Math.max(all[top].requested + base, p.safe + base, p.peak.device);
    const high = (p.capacity < 2.2 * need ? Math.max(need, p.capacity) : need) * 1.1;
    const area = plot(canvas, margin, 0, high);
    const X = (i: number) => area.left + (i / all.length) * area.w;
    const level = new Float64Array(all.length).fill(0);
    band(area, X, level, all.map(() => base), color("context"));
    for (const i of order) band(area, X, level, all.map((m) => (m.by_category || {})[names[i]] || 0), color(names[i]));
    phaseRow(area, X, all);
    line(area, p.peak.device, css("--ink"), []);
    if (area.Y(p.peak.device) - area.Y(p.safe + base) < 1 || area.Y(p.peak.device) - area.Y(p.safe + base) > 20) tag(area, "needed " + size(p.peak.device), area.left + 8, area.Y(p.peak.device) + 11, "left");
    line(area, p.safe + base, css("--ink"), [2, 3]);
    tag(area, "at most " + size(p.safe + base), area.left + area.w - 8, area.Y(p.safe + base) - 11, "right");
    if (p.capacity <= high) limit(area, p.capacity);
    if (cursor >= 0) { area.g.fillStyle = css("--muted"); area.g.fillRect(Math.round(X(cursor + 0.5)), area.top, 1, area.h); }
  };
  const canvas = chart("Predicted memory over the training steps, by category, with the limit.", draw);
  canvas.addEventListener("pointermove", (e) => {
    const share = (e.offsetX - margin.left) / Math.max(1, canvas.clientWidth - margin.left - margin.right);
    cursor = share < 0 || share >= 1 ? -1 : Math.floor(share * all.length);
    draw(canvas);
    tell();
  });
  canvas.addEventListener("pointerleave", () => { cursor = -1; draw(canvas); tell(); });
  tell();
  const own = (p.batches || []).find((b) => b.own);
  return h("section", { class: "card", id: "steps" }, h("div", { class: "bar-row" }, h("h2", {}, "Memory over the steps" + (own ? ", batch " + own.batch : "")), h("span", { class: "faint elsewhere-note", "aria-live": "polite" })), canvas, h("div", { class: "key" }, readout, legend));
}

function band(p: Plot, X: (i: number) => number, level: Float64Array, values: number[], fill: string): void {
  const { g, Y } = p;
  g.beginPath();
  g.moveTo(X(0), Y(level[0]));
  for (let i = 0; i < values.length; i++) {
    g.lineTo(X(i), Y(level[i] + values[i]));
    g.lineTo(X(i + 1), Y(level[i] + values[i]));
  }
  for (let i = values.length - 1; i >= 0; i--) {
    g.lineTo(X(i + 1), Y(level[i]));
    g.lineTo(X(i), Y(level[i]));
    level[i] += values[i];
  }
  g.fillStyle = fill;
  g.fill();
}

// phaseRow says above the plot what the program does, and numbers the steps.
function phaseRow(p: Plot, X: (i: number) => number, all: Moment[]): void {
  const { g } = p, row = 14;
  g.textBaseline = "middle";
  for (let from = 0, to = 0; from < all.length; from = to) {
    const { phase, step } = all[from];
    while (to < all.length && all[to].phase === phase && all[to].step === step) to++;
    const a = X(from), w = X(to) - a;
    g.fillStyle = colorOf(phase, 0);
    g.fillRect(a, p.top - row - 2, Math.max(1, w - 1), row);
    g.textAlign = "center";
    if (phase && g.measureText(phase).width + 8 < w) {
      g.fillStyle = ink(colorOf(phase, 0));
      g.fillText(phase, a + w / 2, p.top - row / 2 - 1.5);
    }
    if (step > 0 && (from === 0 || all[from - 1].step !== step)) {
      g.fillStyle = css("--muted");
      g.textAlign = "left";
      g.fillText("step " + step, a, p.top - row - 12);
      g.fillStyle = css("--root");
      g.fillRect(Math.round(a), p.top, 1, p.h);
    }
  }
}

// cutMark shows that a column goes on beyond the top: two slanted gaps.
function cutMark(p: Plot, x: number, w: number): void {
  const { g } = p;
  g.strokeStyle = css("--card");
  g.lineWidth = 3;
  for (const y of [p.top + 10, p.top + 17]) {
    g.beginPath();
    g.moveTo(x - w / 2 - 2, y + 4);
    g.lineTo(x + w / 2 + 2, y - 4);
    g.stroke();
  }
}

// batches is the slider, over a column for each batch that was predicted.
function batches(p: Prediction, all: Need[], show: (n: Need) => void): HTMLElement {
  const margin = { left: 68, right: 96, top: 26, bottom: 26 };
  const asked = Number(new URLSearchParams(location.hash.slice(1)).get("batch"));
  let chosen = Math.max(0, all.findIndex((b) => (asked ? b.batch === asked : b.own)));
  const verdict = h("span", { id: "verdict", "aria-live": "polite" });
  const draw = (canvas: HTMLCanvasElement) => {
    // Every batch at its own height, as long as the limit stays visible; what is higher is cut with a mark.
    const high = Math.min(1.06 * Math.max(p.capacity, ...all.map((n) => n.peak.device)), 4 * p.capacity), area = plot(canvas, margin, 0, high), { g } = area;
    canvas.dataset.top = String(Math.round(high));
    const wide = area.w / all.length;
    all.forEach((n, i) => {
      const sizes = parts(n), names = Object.keys(sizes), x = area.left + (i + 0.5) * wide, w = Math.min(58, 0.64 * wide);
      g.globalAlpha = i === chosen ? 1 : 0.5;
      let level = 0;
      for (const name of ["context", ...stackOrder(names).map((k) => names[k]).filter((k) => k !== "context" && k !== unused), unused]) {
        const from = Math.min(level, high), to = Math.min((level += sizes[name] || 0), high);
        g.fillStyle = color(name);
        g.fillRect(x - w / 2, area.Y(to), w, area.Y(from) - area.Y(to));
      }
      g.globalAlpha = 1;
      if (level > high) cutMark(area, x, w);
      g.fillStyle = css(i === chosen ? "--ink" : "--muted");
      g.textAlign = "center";
      g.textBaseline = "middle";
      g.fillText(count(n.batch), x, area.top + area.h + 14);
    });
    all.forEach((n, i) => {
      if (wide > 56 || i === chosen) tag(area, size(n.peak.device, 1), area.left + (i + 0.5) * wide, Math.max(area.Y(Math.min(n.peak.device, high)) - 11, area.top - 12), "center");
    });
    limit(area, p.capacity, true); // last, at the free end of the line: no column covers its name
  };
  const canvas = chart("Memory needed with each batch, by category, with the limit.", draw);
  canvas.classList.add("low");
  const slider = h("input", { type: "range", id: "batch", min: 0, max: all.length - 1, step: 1, "aria-label": "batch" });
  slider.style.width = "calc(" + (100 * (all.length - 1)) / all.length + "% + 16px)"; // its ends stand under the first and the last column
  slider.style.marginLeft = "calc(" + 50 / all.length + "% - 8px)";
  const choose = (i: number) => {
    const n = all[(chosen = i)];
    slider.value = String(i);
    slider.setAttribute("aria-valuetext", "batch " + n.batch);
    replace(verdict, "Batch " + count(n.batch) + " ", h("b", { class: n.fits ? "less" : "more" }, n.fits ? "fits" : "does not fit"), ": " + size(n.peak.device) + " needed, " + size(n.safe + context(n)) + " at most.");
    verdict.dataset.batch = String(n.batch);
    verdict.dataset.fits = String(n.fits);
    draw(canvas);
    show(n.own ? { ...n, where: p.where } : n);
  };
  const go = (i: number) => {
    history.replaceState(null, "", all[i].own ? "#" : "#batch=" + all[i].batch);
    choose(i);
  };
  slider.addEventListener("input", () => go(Number(slider.value)));
  canvas.addEventListener("click", (e) => {
    const i = Math.floor(((e.offsetX - margin.left) / Math.max(1, canvas.clientWidth - margin.left - margin.right)) * all.length);
    if (i >= 0 && i < all.length) go(i);
  });
  choose(chosen);
  return h("section", { class: "card", id: "batches" }, h("div", { class: "bar-row" }, h("h2", {}, "Another batch"), verdict), canvas, h("div", { class: "slide" }, slider));
}
