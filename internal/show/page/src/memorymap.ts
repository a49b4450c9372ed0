// The memory reserved by PyTorch at an instant: a bar for each segment, its blocks by what they are for, gaps left empty.

import { canvas2d, h, replace } from "./dom";
import { plural, size } from "./format";
import { colorOf, css, trouble } from "./palette";
import { Block, MemoryMap, Segment } from "./source";

const row = 20, label = 112;

export class MemoryMapView {
  readonly canvas = h("canvas", { class: "map", tabindex: "0", role: "application", "aria-roledescription": "memory map", "aria-describedby": "map-note", "aria-label": "Memory map by segment. Arrow keys move between segments and blocks, Enter shows a block's allocation." });
  readonly head = h("p", { class: "lead" });
  readonly note = h("div", { class: "trail", id: "map-note", "aria-live": "polite" });
  readonly element = h("div", {}, this.head, this.note, h("div", { class: "map-scroll" }, this.canvas));
  private map: MemoryMap | null = null;
  private hovered = "";
  private chosen = { segment: -1, block: -1 }; // by the keyboard; -1: none

  constructor(private onPick: (id: number) => void) {
    this.canvas.addEventListener("pointermove", (e) => this.hover(e));
    this.canvas.addEventListener("click", (e) => {
      const b = this.find(e).block;
      if (b) this.onPick(b.i);
    });
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("blur", () => { this.chosen = { segment: -1, block: -1 }; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // key moves between segments (up, down) and the blocks of one (left, right).
  private key(e: KeyboardEvent): void {
    const all = this.map ? this.map.segments : [], c = this.chosen, blocks = c.segment >= 0 ? all[c.segment].blocks : [];
    if (!all.length || e.ctrlKey || e.metaKey || e.altKey) return;
    const moves: Record<string, () => void> = {
      ArrowDown: () => { c.segment = Math.min(all.length - 1, c.segment + 1); c.block = -1; }, ArrowUp: () => { c.segment = Math.max(0, c.segment - 1); c.block = -1; },
      ArrowRight: () => { c.segment = Math.max(0, c.segment); c.block = Math.min(all[c.segment].blocks.length - 1, c.block + 1); }, ArrowLeft: () => { c.block = Math.max(-1, c.block - 1); },
      Home: () => { c.segment = 0; c.block = -1; }, End: () => { c.segment = all.length - 1; c.block = -1; },
      Enter: () => { if (blocks[c.block]) this.onPick(blocks[c.block].i); },
    };
    if (!moves[e.key]) return;
    e.preventDefault();
    e.stopPropagation();
    moves[e.key]();
    this.tell(all[c.segment], c.segment >= 0 ? all[c.segment].blocks[c.block] : undefined);
    this.draw();
  }

  show(m: MemoryMap): void {
    this.map = m;
    const unused = m.reserved - m.used;
    replace(this.head,
      size(m.reserved) + " reserved by PyTorch in " + plural(m.segments.length + m.more_segments, "segment") + ", " + size(m.used) + " of it in use. ",
      unused > 0 && size(unused) + " is unused. ", m.cached > 0 && size(m.cached) + " of that is in empty segments, which PyTorch can give back. ",
      m.pinned > 0 && size(m.pinned) + " is in segments that are mostly empty but pinned by a tensor (marked).");
    this.note.textContent = "Point at a segment; click a block to see its allocation." + (m.segments.some((s) => s.expandable) ? " ↔ can give back single pages." : "");
    this.draw();
  }

  private width(s: Segment, room: number): number {
    const most = this.map!.segments[0].size;
    return Math.max(24, room * Math.sqrt(s.size / most)); // small segments stay visible
  }

  private find(e: MouseEvent): { segment?: Segment; block?: Block } {
    if (!this.map || !this.map.segments.length) return {};
    const r = this.canvas.getBoundingClientRect(), x = e.clientX - r.left - label;
    const segment = this.map.segments[Math.floor((e.clientY - r.top) / row)];
    if (!segment || x < 0) return { segment };
    const w = this.width(segment, r.width - label - 8), at = (x / w) * segment.size, slack = (2 / w) * segment.size;
    return { segment, block: at > segment.size ? undefined : segment.blocks.find((b) => at >= b.o - slack && at < b.o + b.s + slack) };
  }

  private hover(e: MouseEvent): void {
    const { segment, block } = this.find(e);
    this.canvas.style.cursor = block ? "pointer" : "default";
    this.tell(segment, block);
  }

  private tell(segment?: Segment, block?: Block): void {
    let text = "";
    if (segment) {
      text = "segment " + segment.address + "  ·  " + size(segment.size) + ", " + size(segment.used) + " used by " + plural(segment.count, "tensor") +
        (segment.expandable ? "  ·  expandable" : "") + (segment.private ? "  ·  private pool" : "");
      if (block) text = (block.n > 1 ? plural(block.n, "small tensor") : size(block.s)) + " of " + block.c + " at +" + size(block.o) + "  ·  " + text;
      else if (segment.pin >= 0) text += "  ·  pinned";
    }
    if (text && text !== this.hovered) { this.hovered = text; this.note.textContent = text; }
  }

  draw(): void {
    if (!this.map || !this.canvas.isConnected) return;
    this.canvas.style.height = Math.max(1, this.map.segments.length) * row + 4 + "px";
    const { g, width } = canvas2d(this.canvas);
    g.font = "12px " + css("--sans");
    g.textBaseline = "middle";
    this.map.segments.forEach((s, i) => {
      const y = i * row, w = this.width(s, width - label - 8);
      g.fillStyle = css("--muted");
      g.textAlign = "right";
      g.fillText(size(s.size, 1) + (s.expandable ? " ↔" : ""), label - 12, y + row / 2);
      g.fillStyle = css("--hollow");
      g.fillRect(label, y + 2, w, row - 5);
      for (const b of s.blocks) {
        g.fillStyle = colorOf(b.c, 0);
        g.fillRect(label + (b.o / s.size) * w, y + 2, Math.max(0.75, (b.s / s.size) * w - (b.s / s.size * w > 3 ? 0.5 : 0)), row - 5);
      }
      if (s.pin >= 0) {
        const pin = s.blocks.find((b) => b.i === s.pin) || s.blocks.find((b) => b.n > 1);
        g.fillStyle = trouble;
        const x = label + ((pin ? pin.o : 0) / s.size) * w;
        g.beginPath();
        g.moveTo(x - 4, y);
        g.lineTo(x + 4, y);
        g.lineTo(x, y + 6);
        g.fill();
      }
      g.strokeStyle = css("--edge");
      g.strokeRect(label + 0.5, y + 2.5, w - 1, row - 6);
      if (i !== this.chosen.segment) return;
      const b = s.blocks[this.chosen.block];
      g.strokeStyle = css("--ink");
      g.lineWidth = 2;
      if (b) g.strokeRect(label + (b.o / s.size) * w, y + 2, Math.max(3, (b.s / s.size) * w), row - 5);
      else g.strokeRect(label, y + 2, w, row - 5);
      g.lineWidth = 1;
    });
  }
}
