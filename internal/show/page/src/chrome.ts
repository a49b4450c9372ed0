// The two buttons at the top: light or dark, and the list of keys.

import { h } from "./dom";

// theme follows the system until a person chooses. The choice lasts as long as the page: nothing is stored.
export function theme(): HTMLElement {
  return h("button", {
    id: "theme", class: "icon", title: "light or dark (t)", "aria-label": "light or dark", onclick: () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      document.dispatchEvent(new Event("theme"));
    },
  }, "◐");
}

const keys: [string, string][] = [
  ["← →", "pan"], ["+ −", "zoom"], ["0", "whole run"], [", .", "one event back, forward"], ["[ ]", "end of the step before, after"], ["p", "the peak"],
  ["o", "the next failure"], ["c l f h", "stack by category, line, phase, holder"], ["1 … 5", "tabs"], ["/", "find"], ["t", "light or dark"], ["Esc", "close"],
];

export function help(): HTMLElement {
  const dialog = h("dialog", {}, h("h2", {}, "Keys"), h("dl", {}, ...keys.flatMap(([k, v]) => [h("dt", {}, h("kbd", {}, k)), h("dd", {}, v)])),
    h("p", { class: "faint" }, "On the chart: wheel to zoom, drag to pan, click to look at an instant."),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  const button = h("button", { id: "help", class: "icon", title: "keys (?)", "aria-label": "keys", onclick: () => dialog.showModal() }, "?");
  return h("span", {}, button, dialog);
}
