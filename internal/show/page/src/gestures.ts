// Wheel, drag, pinch and click on a chart, as changes of the range it shows.

export interface Range { from: number; to: number }

interface Target {
  plot(): { left: number; width: number };
  range(): Range;
  move(r: Range): void;
  hover(x: number): void;
  click(x: number, y: number): void;
}

export class Gestures {
  private fingers = new Map<number, number>(); // x by pointer
  private start: { x: number; range: Range; spread: number; moved: boolean } | null = null;

  constructor(private element: HTMLElement, private target: Target) {
    element.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    element.addEventListener("pointerdown", (e) => this.down(e));
    element.addEventListener("pointermove", (e) => this.moveTo(e));
    element.addEventListener("pointerup", (e) => this.up(e));
    element.addEventListener("pointercancel", (e) => { this.fingers.delete(e.pointerId); this.start = null; });
    element.addEventListener("pointerleave", () => { if (!this.fingers.size) target.hover(-1); });
    element.addEventListener("dblclick", (e) => this.scale(0.25, this.x(e)));
  }

  private x(e: MouseEvent): number { return e.clientX - this.element.getBoundingClientRect().left; }

  private scale(factor: number, x: number): void {
    const { left, width } = this.target.plot(), r = this.target.range();
    const center = r.from + ((x - left) / width) * (r.to - r.from);
    this.target.move({ from: center - (center - r.from) * factor, to: center + (r.to - center) * factor });
  }

  private wheel(e: WheelEvent): void {
    e.preventDefault();
    const lines = e.deltaMode === 1 ? 30 : 1;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      const r = this.target.range();
      const by = ((e.deltaX || e.deltaY) * lines * (r.to - r.from)) / this.target.plot().width;
      this.target.move({ from: r.from + by, to: r.to + by });
      return;
    }
    this.scale(Math.exp(Math.max(-200, Math.min(200, e.deltaY * lines)) * 0.0025), this.x(e));
  }

  private spread(): number {
    const all = [...this.fingers.values()];
    return all.length < 2 ? 0 : Math.max(20, Math.abs(all[0] - all[1]));
  }

  private down(e: PointerEvent): void {
    if (e.button !== 0) return;
    this.element.setPointerCapture(e.pointerId);
    this.fingers.set(e.pointerId, this.x(e));
    this.start = { x: this.x(e), range: { ...this.target.range() }, spread: this.spread(), moved: false };
  }

  private moveTo(e: PointerEvent): void {
    if (!this.fingers.has(e.pointerId) || !this.start) {
      if (e.pointerType === "mouse") this.target.hover(this.x(e));
      return;
    }
    this.fingers.set(e.pointerId, this.x(e));
    const { range, x } = this.start, { width } = this.target.plot();
    if (Math.abs(this.x(e) - x) > 3) this.start.moved = true;
    if (!this.start.moved) return;
    if (this.start.spread) {
      const factor = this.start.spread / this.spread(), center = (range.from + range.to) / 2;
      this.target.move({ from: center - (center - range.from) * factor, to: center + (range.to - center) * factor });
      return;
    }
    const by = ((this.x(e) - x) / width) * (range.to - range.from);
    this.target.move({ from: range.from - by, to: range.to - by });
  }

  private up(e: PointerEvent): void {
    this.fingers.delete(e.pointerId);
    if (this.start && !this.start.moved && !this.fingers.size) this.target.click(this.x(e), e.clientY - this.element.getBoundingClientRect().top);
    this.start = null;
  }
}
