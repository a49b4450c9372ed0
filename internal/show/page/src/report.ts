// What the report says: the numbers at the top, categories at the peak, findings with their remedies, growth, comparison.

import { bar, breakable, canvas2d, Child, h, region, swatch } from "./dom";
import { base, certainty, count, percent, plural, signed, size } from "./format";
import { colorOf, css, trouble } from "./palette";
import { Place } from "./source";

export function place(p: Place): HTMLElement {
  return h("span", { class: "place", title: p.file + ":" + p.line }, h("b", {}, base(p.file) + ":" + p.line), " " + p.function);
}

export function tile(value: string, label: string, attributes: Record<string, unknown> = {}, bad = false): HTMLElement {
  return h("div", { class: bad ? "tile bad" : "tile", ...attributes }, h("div", { class: "value" }, value), h("div", { class: "label" }, label));
}

// tiles are the numbers people mix up, each with its own name.
export function tiles(d: any): HTMLElement {
  const out = h("div", { class: "tiles" });
  out.append(tile(size(d.peak.requested), "in use at the peak", { "data-peak": d.peak.requested }));
  out.append(tile(size(d.peak.reserved), "reserved by PyTorch at most", { "data-reserved": d.peak.reserved }));
  const oom = d.oom[d.oom.length - 1];
  if (oom) {
    out.append(tile(size(oom.capacity), oom.capacity_from === "bounds" ? "limit, inferred" : "limit"));
    out.append(tile(size(oom.requested), "requested and refused", {}, true));
  } else out.append(tile(size(d.end.requested), "in use at the end"));
  if (d.steps.count) out.append(tile(count(d.steps.count), d.steps.count === 1 ? "training step" : "training steps"));
  if (d.steps.growth_per_step) out.append(tile("+" + size(d.steps.growth_per_step), "more every step", {}, true));
  return out;
}

// sentence is the headline of a recording that the report's own headline does not speak of.
export function sentence(d: any): string {
  const who = base(d.input) + ", GPU " + d.device, oom = d.oom[d.oom.length - 1];
  const held = size(d.peak.requested) + " in use at the peak, " + size(d.peak.reserved) + " reserved by PyTorch.";
  return oom ? who + " ran out of memory: " + size(oom.requested) + " requested; " + held : who + " never ran out of memory: " + held;
}

export function categories(d: any): HTMLElement {
  const all = Object.entries(d.at_peak.by_category as Record<string, number>).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  const total = all.reduce((s, [, v]) => s + v, 0);
  const list = h("table", { class: "categories" });
  for (const [name, bytes] of all) {
    list.append(h("tr", { "data-category": name, "data-bytes": bytes, class: bytes ? "" : "none" },
      h("td", {}, swatch(colorOf(name, 0)), name), h("td", { class: "fill" }, bar(bytes / Math.max(1, total), colorOf(name, 0))),
      h("td", { class: "number" }, size(bytes, 1)), h("td", { class: "number faint" }, percent(bytes, total))));
  }
  const doing: Record<string, string> = { load: "while loading", forward: "in the forward pass", backward: "in the backward pass", optimizer: "in the optimizer" };
  const when = [size(d.peak.requested), doing[d.peak.phase], d.steps.count && d.peak.step < d.steps.count ? "in step " + (d.peak.step + 1) : ""].filter(Boolean).join(", ");
  return h("section", { class: "card" }, h("h2", {}, "At the peak"),
    h("p", { class: "lead" }, when + "."), list,
    !d.at_peak.certain && h("p", { class: "lead" }, "No stacks were recorded: categories are inferred from lifetimes."));
}

// findings are those of the recording that is shown first; those of other ranks stand below, and say so.
export function findings(r: any, d: any): HTMLElement {
  const mine = (f: any) => !d || !f.input || r.devices.length < 2 || (f.input === d.input && f.device === d.device) || (f.also || []).includes(d.input);
  const here = r.findings.filter(mine), elsewhere = r.findings.filter((f: any) => !mine(f));
  const out = h("section", { class: "card findings" }, h("h2", {}, here.length ? "Findings" : "No findings"));
  if (!here.length) out.append(h("p", { class: "lead" }, "Nothing in this recording needs to change."));
  here.forEach((f: any, i: number) => out.append(finding(f, i === 0)));
  if (elsewhere.length) out.append(h("h3", {}, "In other recordings"), ...elsewhere.map((f: any) => finding(f, false, base(f.input) + " · GPU " + f.device)));
  const notes = new Set<string>([...(r.notes || [])]);
  for (const input of r.inputs) for (const w of input.warnings || []) notes.add(w + ".");
  for (const n of notes) out.append(h("p", { class: "note" }, n));
  return out;
}

function finding(f: any, open: boolean, whose = ""): HTMLElement {
  const body: Child[] = [];
  for (const e of f.evidence) body.push(h("p", {}, e.charAt(0).toUpperCase() + e.slice(1) + "."));
  if (f.where.length) body.push(h("p", { class: "places" }, ...f.where.slice(0, 5).map(place), f.where.length > 5 && h("span", { class: "faint" }, "and " + plural(f.where.length - 5, "more line"))));
  if (f.remedies.length) body.push(remedies(f.remedies));
  if (f.refuted_by) body.push(h("p", { class: "faint" }, "What would disprove it: " + f.refuted_by + "."));
  if (f.also && f.also.length) body.push(h("p", { class: "faint" }, "The same in " + plural(f.also.length, "other input") + "."));
  return h("details", { class: "finding " + f.severity, "data-finding": f.id, "data-severity": f.severity, open },
    h("summary", {}, h("span", { class: "title" }, f.title), h("span", { class: "faint" }, [certainty(f.confidence), whose].filter(Boolean).join(" · "))), ...body);
}

function remedies(all: any[]): HTMLElement {
  return h("ul", { class: "remedies" }, ...all.map((m) => h("li", {},
    breakable(m.action + (m.changes_numerics ? " [changes numerics]" : "")),
    h("span", { class: "saves", title: "checked by " + m.checked_by }, m.saves ? "saves " + size(m.saves, 1) : "", h("small", {}, m.checked_by)))));
}

// growth draws what was in use at the end of each step.
export function growth(d: any): HTMLElement | null {
  const levels: number[] = d.steps.in_use_at_end || [];
  if (levels.length < 3) return null;
  const canvas = h("canvas", { class: "growth", role: "img", "aria-label": "Memory in use at the end of each step" });
  const draw = () => {
    const { g, width, height } = canvas2d(canvas);
    const high = Math.max(1, ...levels), w = width / levels.length;
    levels.forEach((v, i) => {
      g.fillStyle = d.steps.growth_per_step ? trouble : css("--bars");
      const y = height - (v / high) * (height - 2);
      g.fillRect(i * w, y, Math.max(0.8, w - (w > 4 ? 1.5 : 0)), height - y);
    });
  };
  new ResizeObserver(draw).observe(canvas);
  document.addEventListener("theme", draw);
  const text = d.steps.growth_per_step ? "It grows by " + size(d.steps.growth_per_step) + " a step." : "It does not grow from step to step.";
  return h("section", { class: "card" }, h("h2", {}, "At the end of each step"), h("p", { class: "lead" }, text), canvas,
    h("div", { class: "ends" }, h("span", {}, "step 1: " + size(levels[0], 1)), h("span", {}, "step " + levels.length + ": " + size(levels[levels.length - 1], 1))));
}

const shownLines = 15;

// comparison tells what changed between two recordings.
export function comparison(d: any): HTMLElement {
  const row = (name: Child, before: number, after: number) => h("tr", {}, h("td", {}, name), h("td", { class: "number" }, size(before)), h("td", { class: "number" }, size(after)),
    h("td", { class: after > before ? "number more" : "number less" }, signed(after - before)));
  const head = (name: string) => h("tr", {}, h("th", {}, name), h("th", { class: "number" }, "before"), h("th", { class: "number" }, "after"), h("th", { class: "number" }, "change"));
  return h("section", { class: "card wide" }, h("h2", {}, "What changed"),
    h("p", { class: "lead" }, base(d.before.input) + " → " + base(d.after.input) + ", at their peaks"),
    region("what changed", h("table", { class: "rows" }, head("peak"), row("in use", d.before.peak.requested, d.after.peak.requested), row("reserved by PyTorch", d.before.peak.reserved, d.after.peak.reserved),
      head("category"), ...d.by_category.map((c: any) => row(h("span", {}, swatch(colorOf(c.category, 0)), c.category), c.before, c.after)),
      head("line"), ...d.by_line.slice(0, shownLines).map((c: any) => row(h("span", {}, swatch(colorOf(c.category, 0)), c.where && c.where.file ? place(c.where) : (c.where && c.where.function) || "(no line)"), c.before, c.after)))),
    d.by_line.length > shownLines && h("p", { class: "faint" }, plural(d.by_line.length - shownLines, "line") + " with smaller changes not shown; plimsoll diff --json has them all."));
}
