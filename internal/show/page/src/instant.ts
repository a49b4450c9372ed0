// What is alive at an instant as a table, one allocation's life, single events, and what other settings would have held.

import { bar, breakable, Child, h, pressed, region, replace, swatch } from "./dom";
import { count, duration, percent, plural, size } from "./format";
import { place } from "./report";
import { colorOf } from "./palette";
import { Alive, Allocation, Happening, Instant, Place, Row, WhatIf } from "./source";
import { Spot } from "./timeline";

export function moment(i: Instant, timed: boolean): string {
  if (i.event < 0) return i.steps ? "before the first event" : "at the end";
  let text = "at event " + count(i.event);
  if (i.steps) text += i.step < i.steps ? ", step " + (i.step + 1) : ", after the last step";
  return timed ? text + ", " + duration(i.time_us) : text;
}

// under finds the tensor at a place in the curve: its band's rows lie on each other, the largest at the bottom, and so do the tensors of a row. -1: there is none.
export function under(alive: Alive, by: string, spot: Spot): number {
  const same = (r: Row) => by === "category" ? r.category === spot.name : by === "line" && r.where ? (r.where.file.split("/").pop() + ":" + r.where.line + " " + r.where.function).startsWith(spot.name.split(" ")[0]) : false;
  let rows = alive.rows.filter((r) => r.largest && r.largest.length && same(r));
  if (!rows.length) rows = alive.rows.filter((r) => r.largest && r.largest.length);
  let bytes = spot.bytes;
  for (const r of rows) {
    if (bytes < r.bytes) return r.largest![Math.min(r.largest!.length - 1, Math.floor((bytes / r.bytes) * r.count))];
    bytes -= r.bytes;
  }
  return rows.length ? rows[rows.length - 1].largest![0] : -1;
}

function matches(places: Place[], word: string): boolean {
  return !word || places.some((p) => p.file.toLowerCase().includes(word) || p.function.toLowerCase().includes(word));
}

export function table(alive: Alive, word: string, onPick: (id: number) => void): HTMLElement {
  const rows: Child[] = [];
  const total = Object.values(alive.by_category).reduce((a, b) => a + b, 0);
  const wanted = alive.rows.filter((r) => matches(r.frames.map((f) => alive.frames[f]), word.toLowerCase()));
  for (const r of wanted) rows.push(...line(alive, r, total, onPick));
  if (!wanted.length) rows.push(h("tr", {}, h("td", { colspan: 5 }, word ? "Nothing alive here comes from “" + word + "”." : "Nothing is alive here.")));
  const more = alive.more_rows ? h("p", { class: "faint" }, plural(alive.more_rows, "smaller row") + " not shown.") : null;
  return h("div", {}, region("what is alive, by line", h("table", { class: "rows alive" },
    h("tr", {}, h("th", {}, "line"), h("th", {}, "for"), h("th", { class: "number" }, "tensors"), h("th", { class: "number" }, "bytes"), h("th", {}, "share")), ...rows)), more);
}

function line(alive: Alive, r: Row, total: number, onPick: (id: number) => void): HTMLElement[] {
  const detail = h("tr", { class: "detail", hidden: true });
  const open = () => {
    if (detail.hidden && !detail.childNodes.length) {
      detail.append(h("td", { colspan: 5 },
        h("div", { class: "chips" }, ...(r.largest || []).map((id) => h("button", { class: "chip", onclick: (e: Event) => { e.stopPropagation(); onPick(id); } }, "#" + id))),
        stack(r.frames.map((f) => alive.frames[f]), r.name)));
    }
    detail.hidden = !detail.hidden;
    row.setAttribute("aria-expanded", String(!detail.hidden));
  };
  const row = h("tr", { tabindex: "0", role: "button", "aria-expanded": "false", onclick: open, onkeydown: pressed(open) },
    h("td", {}, r.where ? place(r.where) : r.name), h("td", {}, swatch(colorOf(r.category, 0)), r.category),
    h("td", { class: "number" }, count(r.count)), h("td", { class: "number" }, size(r.bytes)), h("td", { class: "fill" }, bar(r.bytes / Math.max(1, total), colorOf(r.category, 0))));
  return [row, detail];
}

function stack(frames: Place[], name: string): HTMLElement {
  if (!frames.length) return h("p", { class: "faint" }, name);
  return h("ol", { class: "stack" }, ...frames.map((f) => h("li", { title: f.file }, place(f))));
}

export function allocation(a: Allocation, timed: boolean, onGo: (event: number) => void, onClose: () => void): HTMLElement {
  const go = (i: Instant) => h("button", { class: "link", onclick: () => onGo(i.event) }, moment(i, timed));
  const life = a.born && a.died ? count(a.died.event - a.born.event) + " events" + (timed ? ", " + duration(a.died.time_us - a.born.time_us) : "") : "to the end of the recording";
  const facts: [string, Child][] = [
    ["size", size(a.bytes) + " (" + count(a.bytes) + " bytes)"], ["for", h("span", {}, swatch(colorOf(a.category, 0)), a.category)], ["requested in", a.phase],
    ["made", a.born ? go(a.born) : "before the history began"], ["freed", a.died ? go(a.died) : "never"], ["lived", life],
    ["address", a.address], ["alike", plural(a.alike, "allocation") + " of this stack and size"],
  ];
  if (a.holder) {
    facts.push(["held by", a.holder.title + (a.holder.part ? ": " + a.holder.part : "")]);
    if (a.holder.name) facts.push(["its name", a.holder.name]);
    if (a.holder.also) facts.push(["also held by", a.holder.also.join(", ")]);
  }
  if (a.stream) facts.push(["stream", "stream " + a.stream]);
  if (a.pool) facts.push(["pool", "private pool " + a.pool]);
  return h("section", { class: "card allocation", "data-allocation": a.id },
    h("h2", {}, "Allocation #" + a.id, h("button", { class: "close", "aria-label": "close", onclick: onClose }, "×")),
    h("dl", {}, ...facts.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])), stack(a.frames, a.name));
}

export function happenings(all: Happening[], at: number, onPick: (id: number) => void, onGo: (event: number) => void): HTMLElement {
  const mark: Record<string, string> = { alloc: "+", free: "−", freed: "−", oom: "✕" };
  const say: Record<string, string> = { alloc: "allocated", free: "freed", freed: "returned by a stream", oom: "out of memory" };
  return region("events", h("table", { class: "rows events" },
    h("tr", {}, h("th", { class: "number" }, "event"), h("th", {}, "what"), h("th", { class: "number" }, "bytes"), h("th", {}, "for"), h("th", {}, "line"), h("th", {}, "tensor")),
    ...all.map((e) => h("tr", { class: e.event === at ? "now" : "", tabindex: "0", onclick: () => onGo(e.event), onkeydown: pressed(() => onGo(e.event)) },
    h("td", { class: "number faint" }, count(e.event)), h("td", {}, (mark[e.kind] || "·") + " " + (say[e.kind] || e.kind)), h("td", { class: "number" }, size(e.bytes)),
    h("td", {}, e.category ? swatch(colorOf(e.category, 0)) : null, e.category || ""), h("td", {}, e.where ? place(e.where) : e.name || ""),
    h("td", {}, e.id >= 0 ? h("button", { class: "chip", onclick: (click: Event) => { click.stopPropagation(); onPick(e.id); } }, "#" + e.id) : null)))));
}

// settings is the what-if table; choosing a row draws its curve.
export function settings(w: WhatIf, chosen: string, onChoose: (conf: string) => void): HTMLElement {
  if (!w.replay) return h("p", { class: "lead" }, "No answer: " + (w.refuse || "no replay") + ".");
  const r = w.replay, f = r.fidelity, out = h("div", {});
  replace(out, h("p", { class: "lead" }, f.exact
    ? "The recorded run is reproduced exactly: " + count(f.events) + " events, every address equal. The rows below can be trusted."
    : "Only " + percent(f.address_matches, f.allocations) + " of the addresses are reproduced: take the rows below as a hint."));
  const most = Math.max(...r.settings.map((s: any) => s.peak.reserved));
  const limited = r.capacity > 0;
  out.append(region("allocator settings", h("table", { class: "rows settings" }, h("tr", {}, h("th", {}, "setting"), h("th", { class: "number" }, "held at most"), h("th", {}, "share"), limited && h("th", {}, "at " + size(r.capacity)), h("th", { class: "number" }, "smallest capacity")),
    ...r.settings.map((s: any) => h("tr", { class: s.conf === chosen ? "now" : "", tabindex: "0", role: "button", onclick: () => onChoose(s.conf === chosen ? "" : s.conf), onkeydown: pressed(() => onChoose(s.conf === chosen ? "" : s.conf)) },
      h("td", {}, h("code", {}, breakable(s.conf)), s.recorded ? " (as recorded)" : ""), h("td", { class: "number" }, size(s.peak.reserved)),
      h("td", { class: "fill" }, bar(s.peak.reserved / most, s.oom ? "#D55E00" : "#0072B2")),
      limited && h("td", { class: s.oom ? "more" : "less" }, s.oom ? "runs out" : "runs"), h("td", { class: "number" }, s.smallest_capacity ? size(s.smallest_capacity) : "–"))))));
  if (r.environment) out.append(h("p", {}, "Before starting: ", h("code", {}, "export " + r.environment)));
  else out.append(h("p", { class: "lead" }, "No setting is better than the recorded one."));
  out.append(h("p", { class: "faint" }, "Choose a row to draw what it would have held over the run."));
  return out;
}
