// What is alive at an instant as a flame graph: a row of boxes for each level of the stacks, the outermost at the top.

import { canvas2d, h } from "./dom";
import { base, percent, size } from "./format";
import { colorOf, css, faded, ink } from "./palette";
import { Alive, FlameNode, Place } from "./source";

const row = 22;

interface Box { node: FlameNode; x: number; w: number; depth: number }

export class Flame {
  readonly canvas = h("canvas", { class: "flame", tabindex: "0", role: "application", "aria-roledescription": "flame graph", "aria-describedby": "flame-trail", "aria-label": "Flame graph of what is alive. Arrow keys move between frames, Enter zooms in, Backspace out." });
  readonly trail = h("div", { class: "trail", id: "flame-trail", "aria-live": "polite" });
  readonly element = h("div", {}, this.trail, h("div", { class: "flame-scroll" }, this.canvas));
  private alive: Alive | null = null;
  private path: FlameNode[] = []; // from the whole to what fills the width
  private boxes: Box[] = [];
  private word = "";
  private hovered: FlameNode | null = null;

  constructor() {
    this.canvas.addEventListener("pointermove", (e) => this.hover(this.find(e)));
    this.canvas.addEventListener("pointerleave", () => this.hover(null));
    this.canvas.addEventListener("click", (e) => { const b = this.find(e); if (b) this.zoom(b); });
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("blur", () => this.hover(null));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  show(alive: Alive, word: string): void {
    if (alive !== this.alive) this.path = [alive.flame];
    this.alive = alive;
    this.word = word.toLowerCase();
    this.draw();
  }

  private place(n: FlameNode): Place | null { return n.f >= 0 && this.alive ? this.alive.frames[n.f] : null; }
  private label(n: FlameNode): string {
    const p = this.place(n);
    return p ? p.function + "  " + base(p.file) + ":" + p.line : n.n || "";
  }
  private matches(n: FlameNode): boolean {
    const p = this.place(n);
    return !!p && (p.file.toLowerCase().includes(this.word) || p.function.toLowerCase().includes(this.word));
  }

  private zoom(b: Box): void {
    const at = this.path.indexOf(b.node);
    if (at >= 0) this.path = this.path.slice(0, at + 1);
    else {
      const chain = trace(this.path[this.path.length - 1], b.node);
      if (chain) this.path = this.path.concat(chain.slice(1));
    }
    this.draw();
  }

  // key moves from box to box: up and down between callers and called, left and right between those of one level.
  private key(e: KeyboardEvent): void {
    const now = this.boxes.find((b) => b.node === this.hovered) || this.boxes.find((b) => b.node === this.path[this.path.length - 1]);
    if (!now || e.ctrlKey || e.metaKey || e.altKey) return;
    const level = (depth: number) => this.boxes.filter((b) => b.depth === depth).sort((a, b) => a.x - b.x);
    const over = (all: Box[]) => all.find((b) => b.x <= now.x + 0.5 && now.x < b.x + b.w) || all.find((b) => b.x >= now.x);
    const row = level(now.depth), at = row.indexOf(now);
    const moves: Record<string, () => Box | null | undefined> = {
      ArrowDown: () => (now.node.k && now.node.k.length ? this.boxes.find((b) => b.node === now.node.k![0]) : null) || over(level(now.depth + 1)),
      ArrowUp: () => over(level(now.depth - 1)), ArrowLeft: () => row[at - 1], ArrowRight: () => row[at + 1], Home: () => row[0], End: () => row[row.length - 1],
    };
    if (e.key === "Enter" || e.key === " ") this.zoom(now);
    else if (e.key === "Backspace") { if (this.path.length > 1) { this.path = this.path.slice(0, -1); this.draw(); } }
    else if (moves[e.key]) { const next = moves[e.key](); if (next) this.hover(next); }
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  private find(e: MouseEvent): Box | null {
    const r = this.canvas.getBoundingClientRect(), x = e.clientX - r.left, depth = Math.floor((e.clientY - r.top) / row);
    return this.boxes.find((b) => b.depth === depth && x >= b.x && x < b.x + b.w) || null;
  }

  private hover(b: Box | null): void {
    const node = b ? b.node : null;
    this.canvas.style.cursor = node ? "pointer" : "default";
    if (node === this.hovered) return;
    this.hovered = node;
    this.tell();
    this.draw();
  }

  private tell(): void {
    if (!this.alive) return;
    const n = this.hovered || this.path[this.path.length - 1], p = this.place(n);
    const where = p ? p.function + " — " + p.file + ":" + p.line : n.n || "";
    if (this.word && !this.hovered && !this.boxes.some((b) => this.matches(b.node))) {
      this.trail.textContent = "Nothing alive here comes from “" + this.word + "”.";
      return;
    }
    this.trail.textContent = size(n.v) + "  ·  " + percent(n.v, this.alive.flame.v) + "  ·  " + where;
  }

  private layout(width: number): number {
    this.boxes = [];
    let deepest = 0;
    const place = (n: FlameNode, x: number, w: number, depth: number) => {
      if (w < 0.6) return;
      this.boxes.push({ node: n, x, w, depth });
      deepest = Math.max(deepest, depth);
      for (const k of n.k || []) {
        const share = (k.v / Math.max(1, n.v)) * w;
        place(k, x, share, depth + 1);
        x += share;
      }
    };
    this.path.slice(0, -1).forEach((n, i) => this.boxes.push({ node: n, x: 0, w: width, depth: i }));
    place(this.path[this.path.length - 1], 0, width, this.path.length - 1);
    return deepest + 1;
  }

  draw(): void {
    if (!this.alive || !this.canvas.isConnected) return;
    const rows = this.layout(this.canvas.clientWidth);
    const wanted = rows * row + "px";
    if (this.canvas.style.height !== wanted) this.canvas.style.height = wanted;
    const { g } = canvas2d(this.canvas);
    g.font = "12px " + css("--sans");
    g.textBaseline = "middle";
    const last = this.path.length - 1;
    for (const b of this.boxes) {
      const above = b.depth < last, root = b.node.f < 0 && b.depth === 0;
      const color = root ? css("--root") : colorOf(b.node.c, 0);
      const opacity = above ? 0.45 : this.word && !this.matches(b.node) ? 0.28 : root ? 1 : 0.62 + 0.3 * ((b.depth * 37) % 3) / 2;
      const fill = faded(color, opacity, css("--card"));
      g.fillStyle = fill;
      g.fillRect(b.x, b.depth * row, Math.max(0.5, b.w - 1), row - 1);
      if (b.node === this.hovered) {
        g.strokeStyle = css("--ink");
        g.strokeRect(b.x + 0.5, b.depth * row + 0.5, Math.max(1, b.w - 2), row - 2);
      }
      if (b.w > 34) this.text(g, b, ink(fill));
    }
    this.tell();
  }

  private text(g: CanvasRenderingContext2D, b: Box, color: string): void {
    let text = this.label(b.node);
    const room = b.w - 12;
    if (g.measureText(text).width > room) {
      const fits = Math.floor((text.length * room) / g.measureText(text).width) - 1;
      if (fits < 3) return;
      text = text.slice(0, fits) + "…";
      while (text.length > 4 && g.measureText(text).width > room) text = text.slice(0, -2) + "…";
    }
    g.fillStyle = color;
    g.textAlign = "left";
    g.fillText(text, b.x + 6, b.depth * row + row / 2);
  }
}

// trace finds the way from one node down to another.
function trace(from: FlameNode, to: FlameNode): FlameNode[] | null {
  if (from === to) return [from];
  for (const k of from.k || []) {
    const rest = trace(k, to);
    if (rest) return [from, ...rest];
  }
  return null;
}
