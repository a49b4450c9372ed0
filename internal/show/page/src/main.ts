// The page: reads the address, asks for what it shows, and keeps the two in step.

import { h, replace, swatch } from "./dom";
import { base, count, duration, percent, size } from "./format";
import { colorOf, stackOrder } from "./palette";
import { Flame } from "./flame";
import { MemoryMapView } from "./memorymap";
import { Overview, Source, Summary, WhatIf, open } from "./source";
import { State, home, read, write } from "./state";
import { Spot, Timeline } from "./timeline";
import * as instant from "./instant";
import * as report from "./report";
import { planned } from "./planned";
import { predicted } from "./predicted";
import { theme, help } from "./chrome";

const tabs: [string, string][] = [["flame", "Flame graph"], ["table", "Lines"], ["map", "Memory map"], ["events", "Events"], ["settings", "Other settings"]];

class Page {
  private state: State = read(location.hash);
  private overviews: Overview[] = [];
  private summary: Summary | null = null;
  private whatIfs = new Map<number, WhatIf>();
  private home = 0; // the recording that the headline speaks of
  private asked = 0; // number of the last question about an instant; older answers are dropped

  private headline = h("h1", { id: "headline" }, "Reading…");
  private numbers = h("div", { id: "numbers" });
  private side = h("aside", { class: "side" });
  private legend = h("div", { class: "legend" });
  private readout = h("div", { class: "readout", "aria-live": "polite" });
  private panel = h("div", { class: "panel", id: "panel" });
  private about = h("span", { class: "about" });
  private detail = h("div", { id: "detail" });
  private choose = h("select", { "aria-label": "recording", onchange: () => this.go({ d: Number(this.choose.value), from: NaN, to: NaN, at: NaN, alloc: NaN, conf: "" }) });
  private search = h("input", { type: "search", placeholder: "Find file or function  /", "aria-label": "find file or function", oninput: () => this.later(() => this.go({ q: this.search.value })) });
  private by = h("div", { class: "segmented", role: "group", "aria-label": "stack by" });
  private axis = h("div", { class: "segmented", role: "group", "aria-label": "axis" });
  private tabBar = h("div", { class: "tabs", role: "tablist" });
  private flame = new Flame();
  private map = new MemoryMapView((id) => this.go({ alloc: id }));
  private timeline: Timeline;
  private timer = 0;

  constructor(private source: Source) {
    this.timeline = new Timeline(source, () => this.keepRange(), (event, spot) => void this.pick(event, spot), () => this.tell());
    document.body.append(
      h("header", {}, h("a", { class: "brand", href: "#", "aria-label": "whole run" }, mark(), "plimsoll"), this.choose, h("span", { class: "grow" }), this.search, theme(), help()),
      h("main", {}, this.headline, this.numbers,
        h("div", { class: "columns" },
          h("div", { class: "middle" },
            h("section", { class: "card", id: "timeline" },
              h("div", { class: "bar-row" }, h("h2", {}, "Memory over the run"), this.by, this.axis, h("span", { class: "grow" }), this.zoomButtons()),
              this.timeline.canvas, this.timeline.strip, h("div", { class: "key" }, this.readout, this.legend)),
            h("section", { class: "card", id: "instant" }, h("div", { class: "bar-row" }, this.tabBar, h("span", { class: "grow" }), this.about), this.panel)),
          h("div", { class: "side-box" }, this.detail, this.side))),
      h("footer", {}, "Everything here was computed on this machine and stays on it."));
    addEventListener("hashchange", () => { if (this.overviews.length) this.restore(read(location.hash)); });
    addEventListener("keydown", (e) => this.key(e));
    document.addEventListener("theme", () => { this.timeline.draw(); this.flame.draw(); this.map.draw(); this.tell(); });
  }

  async start(): Promise<void> {
    const summary = this.source.summary().then((s) => this.conclude(s));
    this.overviews = await this.source.overview();
    if (this.overviews.length > 1) { // open on the one that the headline speaks of, unless the address names another
      this.home = Math.min((await this.source.summary()).about, this.overviews.length - 1);
      home(this.home);
      this.state = read(location.hash);
      if (this.state.d >= this.overviews.length) this.state.d = this.home;
    }
    if (this.overviews.length) await this.openRecording();
    else document.body.classList.add((await this.source.summary()).report ? "text-only" : "answer");
    await summary;
    if (this.overviews.length > 1) this.showReport();
    document.body.dataset.ready = "1";
  }

  private get overview(): Overview { return this.overviews[this.state.d]; }
  private get at(): number { return Number.isNaN(this.state.at) ? this.overview.peak.event : this.state.at; }

  // go changes the view and its address.
  private go(change: Partial<State>): void {
    const next = { ...this.state, ...change };
    const hash = write(next);
    history.pushState(null, "", "#" + hash);
    this.restore(next);
  }

  // restore shows a state, asking only for what changed.
  private restore(next: State): void {
    const was = this.state;
    if (next.d >= this.overviews.length) next.d = 0;
    this.state = next;
    if (was.d !== next.d || was.by !== next.by || was.axis !== next.axis || was.q !== next.q) {
      if (was.axis !== next.axis && was.from === next.from) this.state.from = this.state.to = NaN;
      void this.openRecording();
      if (was.d !== next.d) this.showReport();
      return;
    }
    if (!Object.is(was.from, next.from) || !Object.is(was.to, next.to)) {
      const whole = Number.isNaN(next.from);
      this.timeline.show({ from: whole ? 0 : next.from, to: whole ? this.timeline.end() : next.to });
    }
    void this.showInstant();
    void this.showAllocation();
    this.showOverlay();
  }

  private async openRecording(): Promise<void> {
    const o = this.overview, s = this.state;
    if (s.axis === "time" && !o.duration_us) s.axis = "event";
    if (this.search.value !== s.q) this.search.value = s.q;
    replace(this.choose, ...this.overviews.map((v, i) => h("option", { value: i, selected: i === s.d }, base(v.input) + (this.overviews.length > 1 || v.device ? " · GPU " + v.device : ""))));
    this.choose.disabled = this.overviews.length < 2;
    document.title = base(o.input) + " — Plimsoll";
    if (!o.groups.includes(s.by)) s.by = "category";
    this.buttons(this.by, o.groups.map((g): [string, string] => [g, g]), s.by, (v) => this.go({ by: v }));
    this.buttons(this.axis, o.duration_us ? [["event", "events"], ["time", "time"]] : [], s.axis, (v) => this.go({ axis: v, from: NaN, to: NaN }));
    document.body.classList.toggle("no-history", o.events === 0);
    const by = s.q && !this.source.stored ? "match" : s.by;
    const range = Number.isNaN(s.from) ? null : { from: s.from, to: s.to };
    if (o.events) await this.timeline.open(o, { d: s.d, by, word: s.q, axis: s.axis }, range);
    this.showLimit();
    await Promise.all([this.showInstant(), this.showAllocation()]);
    this.showOverlay();
  }

  private conclude(s: Summary): void {
    this.summary = s;
    this.headline.textContent = s.headline;
    if (s.prediction || s.fit) {
      document.title = ((s.prediction || s.fit)!.title || "Prediction") + " — Plimsoll";
      document.querySelector("main")!.replaceChildren(this.headline, ...(s.prediction ? predicted(s.prediction, this.headline) : planned(s.fit!)));
      return;
    }
    this.showReport();
    if (this.overviews.length) this.showLimit();
  }

  private device(): any {
    const o = this.overview;
    return o && this.summary ? this.summary.report.devices.find((d: any) => d.input === o.input && d.device === o.device) : null;
  }

  private showReport(): void {
    if (!this.summary) return;
    const d = this.device() || this.summary.report.devices[this.state.d];
    this.headline.textContent = d && this.overviews.length > 1 && this.state.d !== this.home ? report.sentence(d) : this.summary.headline;
    replace(this.numbers, d && report.tiles(d));
    replace(this.side, this.summary.diff && report.comparison(this.summary.diff), report.findings(this.summary.report, d), d && report.categories(d), d && report.growth(d));
    this.showLimit();
  }

  private showLimit(): void {
    const d = this.device(), oom = d && d.oom[d.oom.length - 1];
    this.timeline.setLimit(oom ? oom.capacity : 0, oom && oom.capacity_from === "bounds" ? " (inferred)" : "");
  }

  private async showInstant(): Promise<void> {
    this.buttons(this.tabBar, tabs, this.state.tab, (v) => this.go({ tab: v }), "tab");
    const at = this.at, d = this.state.d, tab = this.state.tab, mine = ++this.asked;
    this.timeline.setAt(at, NaN);
    const late = () => mine !== this.asked;
    if (tab === "settings") { await this.showSettings(late); return; }
    if (tab === "map") {
      const m = await this.source.map(d, at);
      if (late()) return;
      this.tellAbout(m);
      this.panel.replaceChildren(this.map.element);
      this.map.show(m);
    } else if (tab === "events") {
      const all = await this.source.events(d, Math.max(0, at - 12), 60);
      if (late()) return;
      this.about.textContent = "";
      this.panel.replaceChildren(all.length ? instant.happenings(all, at, (id) => this.go({ alloc: id }), (event) => this.go({ at: event }))
        : h("p", { class: "lead" }, this.source.stored ? "This file does not include single events; plimsoll view shows them." : "This snapshot has no history."));
    } else {
      const a = await this.source.alive(d, at);
      if (late()) return;
      this.tellAbout(a);
      if (tab === "table") this.panel.replaceChildren(instant.table(a, this.state.q, (id) => this.go({ alloc: id })));
      else {
        this.panel.replaceChildren(this.flame.element);
        this.flame.show(a, this.state.q);
      }
    }
    document.body.dataset.at = String(at);
  }

  private tellAbout(i: { event: number; time_us: number; step: number; steps: number; in_use: number; reserved: number }): void {
    const other = this.source.stored && i.event !== this.at;
    this.about.textContent = size(i.in_use) + " alive " + instant.moment(i, this.overview.duration_us > 0) + (i.event >= 0 && i.event === this.overview.peak.event ? " (the peak)" : "") +
      (other ? " — the nearest to event " + count(this.at) + " that this file carries; plimsoll view shows every event" : "");
    this.timeline.setAt(i.event, i.time_us);
  }

  // pick looks at an instant, and at the tensor that was clicked in the curve.
  private async pick(event: number, spot: Spot | null): Promise<void> {
    const { d, by } = this.state;
    this.go({ at: event, alloc: NaN });
    if (!spot) return;
    const id = instant.under(await this.source.alive(d, event), by, spot);
    if (id >= 0 && this.state.d === d && this.at === event) this.go({ alloc: id });
  }

  private async showSettings(late: () => boolean): Promise<void> {
    this.about.textContent = "";
    const d = this.state.d;
    if (!this.whatIfs.has(d)) this.panel.replaceChildren(h("p", { class: "lead" }, "Replaying the run under other allocator settings…"));
    const w = await this.ensureWhatIf(d);
    if (!late()) this.panel.replaceChildren(instant.settings(w, this.state.conf, (conf) => this.go({ conf })));
  }

  private async ensureWhatIf(d: number): Promise<WhatIf> {
    let w = this.whatIfs.get(d);
    if (!w) {
      w = await this.source.whatif(d);
      this.whatIfs.set(d, w);
    }
    return w;
  }

  private showOverlay(): void {
    const { conf, d, axis } = this.state;
    if (!conf) { this.timeline.setOverlay(null); return; }
    void this.ensureWhatIf(d).then((w) => {
      const c = w.curves.find((x) => x.conf === conf);
      this.timeline.setOverlay(c ? { conf, at: axis === "time" ? w.time_us : w.event, held: c.held } : null);
      this.tell();
    });
  }

  private async showAllocation(): Promise<void> {
    const { alloc, d } = this.state;
    if (Number.isNaN(alloc)) { this.detail.replaceChildren(); return; }
    try {
      const a = await this.source.allocation(d, alloc);
      if (this.state.alloc === alloc) this.detail.replaceChildren(instant.allocation(a, this.overview.duration_us > 0, (event) => this.go({ at: event }), () => this.go({ alloc: NaN })));
    } catch (e) {
      this.detail.replaceChildren(h("section", { class: "card" }, h("p", { class: "lead" }, (e as Error).message)));
    }
  }

  // tell fills in the legend: values under the pointer, or the peak's.
  private tell(): void {
    const c = this.timeline.curve;
    if (!c) return;
    let r = this.timeline.read();
    const pointing = r !== null;
    if (!r) {
      const [a, b] = this.timeline.inView(c);
      let i = a;
      for (let k = a; k < b; k++) if (c.high[k] > c.high[i]) i = k;
      r = { names: c.names, values: c.bands.map((b) => b[i]), high: c.high[i], low: c.low[i], reserved: c.reserved[i], event: c.event[i], from: c.from, to: c.to, exact: c.exact };
    }
    const where = this.state.axis === "time" ? duration(r.from) : "event " + count(r.exact || !pointing ? r.event : r.from) + (pointing && !r.exact && r.to - r.from > 1 ? " – " + count(r.to - 1) : "");
    replace(this.readout, h("div", { class: "value" }, size(r.high)), h("div", { class: "label" }, (pointing ? "most in use, " : "highest in view, ") + where));
    const item = (key: HTMLElement, name: string, value: string, share: string) => h("div", { class: "item" }, h("div", {}, key, name), h("div", { class: "amount" }, value, h("span", { class: "faint" }, share)));
    const shown = stackOrder(r.names).reverse().filter((b) => c.bands[b].some((v) => v > 0));
    replace(this.legend,
      item(h("span", { class: "dash solid" }), "reserved by PyTorch", size(r.reserved, 1), ""),
      this.state.conf && item(h("span", { class: "dash" }), "held under " + this.state.conf, "", ""),
      ...shown.map((b) => item(swatch(colorOf(r!.names[b], b)), r!.names[b], size(r!.values[b], 1), percent(r!.values[b], r!.high))));
  }

  private keepRange(): void {
    this.later(() => {
      const r = this.timeline.range, whole = r.from === 0 && r.to === this.timeline.end();
      this.state.from = whole ? NaN : r.from;
      this.state.to = whole ? NaN : r.to;
      history.replaceState(null, "", "#" + write(this.state));
    });
  }
  private later(f: () => void): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(f, 160);
  }

  private buttons(box: HTMLElement, all: [string, string][], chosen: string, onChoose: (v: string) => void, role = ""): void {
    replace(box, ...all.map(([value, text]) => h("button", {
      class: value === chosen ? "on" : "", role: role || null, "aria-selected": role ? String(value === chosen) : null, "aria-pressed": role ? null : String(value === chosen),
      "data-value": value, onclick: () => onChoose(value),
    }, text)));
  }

  private zoomButtons(): HTMLElement {
    const b = (text: string, label: string, f: () => void) => h("button", { title: label, "aria-label": label, onclick: f }, text);
    return h("div", { class: "segmented" }, b("−", "zoom out", () => this.timeline.zoom(2)), b("+", "zoom in", () => this.timeline.zoom(0.5, this.center())), b("whole run", "show the whole run", () => this.timeline.reset()));
  }
  private center(): number {
    const r = this.timeline.range, at = this.at + 0.5;
    return this.state.axis === "event" && at > r.from && at < r.to ? at : (r.from + r.to) / 2;
  }

  private key(e: KeyboardEvent): void {
    const typing = e.target instanceof HTMLInputElement || e.target instanceof HTMLSelectElement;
    if (e.key === "Escape") { (document.activeElement as HTMLElement)?.blur(); if (!Number.isNaN(this.state.alloc)) this.go({ alloc: NaN }); return; }
    if (typing || e.ctrlKey || e.metaKey || e.altKey || !this.overviews.length) return;
    const o = this.overview, failures = o.failures.map((f) => f.event);
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.timeline.pan(-0.15), ArrowRight: () => this.timeline.pan(0.15),
      "+": () => this.timeline.zoom(0.5, this.center()), "=": () => this.timeline.zoom(0.5, this.center()), "-": () => this.timeline.zoom(2, this.center()), "0": () => this.timeline.reset(),
      ",": () => this.go({ at: Math.max(-1, this.at - 1) }), ".": () => this.go({ at: Math.min(o.events - 1, this.at + 1) }),
      "[": () => this.step(-1), "]": () => this.step(1),
      p: () => this.go({ at: o.peak.event }), o: () => { if (failures.length) this.go({ at: failures.find((f) => f > this.at) ?? failures[0] }); },
      c: () => this.go({ by: "category" }), l: () => this.go({ by: "line" }), f: () => this.go({ by: "phase" }), h: () => this.go({ by: "holder" }),
      "/": () => this.search.focus(), t: () => document.getElementById("theme")!.click(), "?": () => document.getElementById("help")!.click(),
    };
    tabs.forEach(([tab], i) => { actions[String(i + 1)] = () => this.go({ tab }); });
    const action = actions[e.key];
    if (!action) return;
    e.preventDefault();
    action();
  }
  private step(by: number): void {
    const steps = this.overview.steps;
    const next = by > 0 ? steps.find((s) => s > this.at) : [...steps].reverse().find((s) => s < this.at);
    if (next !== undefined) this.go({ at: next });
  }
}

// mark is the load line: a circle and the water.
function mark(): SVGSVGElement {
  const make = (tag: string, attributes: Record<string, string>) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  };
  const svg = make("svg", { viewBox: "0 0 24 24", width: "22", height: "22", fill: "none", stroke: "currentColor", "stroke-width": "2", "aria-hidden": "true" }) as SVGSVGElement;
  svg.append(make("circle", { cx: "12", cy: "12", r: "7" }), make("path", { d: "M1.5 12h21" }));
  return svg;
}

open().then((source) => new Page(source).start()).catch((e) => {
  const said = document.getElementById("headline");
  const text = "DecompressionStream" in window ? "The page lost its server: is plimsoll view still running?" : "This page needs a browser of 2023 or later.";
  if (said) said.textContent = text;
  else document.body.append(text);
  console.error(e);
});
