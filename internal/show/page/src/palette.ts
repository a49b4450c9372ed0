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

// ink is black or white, whichever reads better on a colour.
export function ink(color: string): string {
  const n = parseInt(color.slice(1), 16);
  const luminance = 0.299 * (n >> 16) + 0.587 * ((n >> 8) & 255) + 0.114 * (n & 255);
  return luminance > 125 ? "#141412" : "#ffffff";
}

export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
