// Colours that people with any colour vision can tell apart: Okabe and Ito (2008). Vermillion is kept for trouble.

const okabeIto = {
  orange: "#E69F00", sky: "#56B4E9", green: "#009E73", yellow: "#F0E442", blue: "#0072B2", vermillion: "#D55E00", purple: "#CC79A7", grey: "#9A9A94",
};

export const trouble = okabeIto.vermillion;

const named: Record<string, string> = {
  parameters: okabeIto.blue, gradients: okabeIto.green, optimizer: okabeIto.purple, activations: okabeIto.orange,
  inputs: okabeIto.sky, workspace: okabeIto.yellow, other: okabeIto.grey, "waiting for another stream": "#5C5C58",
  load: okabeIto.blue, data: okabeIto.sky, forward: okabeIto.orange, backward: okabeIto.green, save: okabeIto.yellow, "own code": "#B2A1D6",
  "other lines": okabeIto.grey, "everything else": "#B9B9B2", found: okabeIto.blue,
};

const series = [okabeIto.blue, okabeIto.orange, okabeIto.green, okabeIto.purple, okabeIto.sky, okabeIto.yellow, "#7A5CA8", "#A0522D", "#2F4B7C"];

export function colorOf(name: string, index: number): string {
  return named[name] || series[index % series.length];
}

// order is how bands are stacked, from the bottom: what stays first, what comes and goes on top.
const bottomUp = ["parameters", "gradients", "optimizer", "other", "workspace", "inputs", "activations",
  "load", "own code", "data", "forward", "backward", "save", "everything else", "found", "other lines", "waiting for another stream"];

export function stackOrder(names: string[]): number[] {
  const rank = (i: number) => {
    const r = bottomUp.indexOf(names[i]);
    return r < 0 ? -1 - (names.length - i) : r; // lines: the largest at the bottom
  };
  return names.map((_, i) => i).sort((a, b) => rank(a) - rank(b));
}

const dark = "#141412", light = "#ffffff";

function channels(color: string): number[] {
  const n = parseInt(color.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

// luminance and contrast are those of WCAG 2.2: text needs a contrast of 4.5.
function luminance(color: string): number {
  const [r, g, b] = channels(color).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

// ink is black or white, whichever reads better on a colour: one of them always has a contrast of 4.5.
export function ink(color: string): string { return readable(contrast(dark, color) >= contrast(light, color) ? dark : light, color); }

// readable notes the least contrast of text on the canvases, which no tool can see there, and gives the text's colour back.
export function readable(text: string, on: string): string {
  const body = document.body.dataset, least = Number(body.contrast || 21);
  body.contrast = Math.min(least, contrast(text, on)).toFixed(2);
  return text;
}

// faded is a colour of so much opacity over another, as one colour, so that the ink on it can be chosen.
export function faded(color: string, opacity: number, under: string): string {
  const below = channels(under);
  return "#" + channels(color).map((v, i) => Math.round(v * opacity + below[i] * (1 - opacity)).toString(16).padStart(2, "0")).join("");
}

export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
