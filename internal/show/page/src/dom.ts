// Elements are built here and nowhere else. Text goes in as text: names from recordings can never become markup.

export type Child = Node | string | null | undefined | false;

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Record<string, unknown> = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value as EventListener);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  put(element, ...children);
  return element;
}

export function put(element: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child); // a string becomes a text node
  }
}

export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  put(element, ...children);
}

// breakable lets a long setting or call wrap where a person would break it, without changing what is copied.
export function breakable(text: string): HTMLElement {
  const out = h("span");
  text.split(/(?<=[=:,_])(?=\S)/).forEach((part, i) => put(out, i > 0 && h("wbr"), part));
  return out;
}

// region is a part of the page that scrolls on its own, so that the keyboard can scroll it.
export function region(label: string, ...children: Child[]): HTMLElement {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);
}

// pressed carries out what a click does when Enter or the space bar is pressed.
export function pressed(act: () => void): (e: KeyboardEvent) => void {
  return (e) => {
    if (e.target !== e.currentTarget || e.key !== "Enter" && e.key !== " ") return;
    e.preventDefault();
    e.stopPropagation();
    act();
  };
}

// swatch is a small square of a colour. Colours are set through the object model, which the content-security policy allows.
export function swatch(color: string): HTMLElement {
  const s = h("span", { class: "swatch", "aria-hidden": "true" });
  s.style.backgroundColor = color;
  return s;
}

export function bar(share: number, color: string): HTMLElement {
  const fill = h("span");
  fill.style.width = (100 * Math.max(0, Math.min(1, share))).toFixed(2) + "%";
  fill.style.backgroundColor = color;
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}

// canvas2d sizes a canvas to its box at the screen's resolution and gives its context, scaled to CSS pixels.
export function canvas2d(canvas: HTMLCanvasElement): { g: CanvasRenderingContext2D; width: number; height: number } {
  const width = Math.max(1, canvas.clientWidth), height = Math.max(1, canvas.clientHeight);
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const g = canvas.getContext("2d")!;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return { g, width, height };
}
