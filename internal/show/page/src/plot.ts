// What the charts of predictions and plans share: the grid of sizes, the limit, a tag beside it.

import { canvas2d, h } from "./dom";
import { inUnit, size, ticks } from "./format";
import { css, trouble } from "./palette";

export interface Plot {
  g: CanvasRenderingContext2D; left: number; top: number; w: number; h: number;
  Y: (bytes: number) => number;
}

export interface Margin { left: number; right: number; top: number; bottom: number }

// chart is a canvas that draws itself again when its box or the colours change.
export function chart(label: string, draw: (canvas: HTMLCanvasElement) => void): HTMLCanvasElement {
  const canvas = h("canvas", { class: "chart", tabindex: "0", role: "img", "aria-label": label });
  new ResizeObserver(() => draw(canvas)).observe(canvas);
  document.addEventListener("theme", () => draw(canvas));
  return canvas;
}

// plot clears a canvas and draws the grid of sizes from low to high.
export function plot(canvas: HTMLCanvasElement, m: Margin, low: number, high: number): Plot {
  const { g, width, height } = canvas2d(canvas);
  g.font = "12px " + css("--sans");
  const w = Math.max(1, width - m.left - m.right), tall = Math.max(1, height - m.top - m.bottom);
  const Y = (v: number) => m.top + tall - ((v - low) / (high - low)) * tall;
  const { values, unit, decimals } = ticks(high, (Math.max(2, tall / 52) * high) / (high - low));
  g.textAlign = "right";
  g.textBaseline = "middle";
  for (const v of values) {
    if (v < low) continue;
    g.fillStyle = css("--grid");
    g.fillRect(m.left, Math.round(Y(v)), w, 1);
    g.fillStyle = css("--muted");
    g.fillText(v === 0 ? "0" : inUnit(v, unit, decimals), m.left - 10, Y(v));
  }
  return { g, left: m.left, top: m.top, w, h: tall, Y };
}

// limit draws what there is, as a dashed line with its name.
export function limit(p: Plot, capacity: number, outside = false): void {
  line(p, capacity, trouble, [7, 4]);
  if (outside) tag(p, "limit " + size(capacity, 1), p.left + p.w + 6, p.Y(capacity), "left");
  else tag(p, "limit " + size(capacity), p.left + 8, p.Y(capacity) - 11, "left");
}

export function line(p: Plot, bytes: number, color: string, dash: number[]): void {
  const { g } = p;
  g.strokeStyle = color;
  g.lineWidth = 1.5;
  g.setLineDash(dash);
  g.beginPath();
  g.moveTo(p.left, p.Y(bytes));
  g.lineTo(p.left + p.w, p.Y(bytes));
  g.stroke();
  g.setLineDash([]);
}

// tag writes on a patch of the card's colour, so that it reads over anything.
export function tag(p: Plot, text: string, x: number, y: number, align: CanvasTextAlign): void {
  const { g } = p;
  const w = g.measureText(text).width, from = align === "left" ? x : align === "right" ? x - w : x - w / 2;
  g.fillStyle = css("--card");
  g.fillRect(from - 4, y - 9, w + 8, 18);
  g.fillStyle = css("--ink");
  g.textAlign = align;
  g.textBaseline = "middle";
  g.fillText(text, x, y);
}
