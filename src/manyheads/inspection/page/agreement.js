// How far the attention of each head agrees with an attribution: one rank correlation per head.

import { css } from "./colour.js";
import { h } from "./dom.js";
import { kindOwedTo } from "./methods.js";
import { headName } from "./weights.js";

const MEANING_OF_AGREEMENT =
  "Rank correlation between the attention weights of a head and the absolute attributions, averaged over rows: "
  + "1 means the same order, 0 no relation.";

const told = (value) => (value === null ? "–" : value.toFixed(2).replace("-", "−"));

function bestAgreement(layers) {
  const all = layers.flatMap((row, layer) => row.map((value, n) => ({ value, layer, head: n === 0 ? null : n - 1 })));
  const better = (best, one) => (best && best.value >= one.value ? best : one);
  return all.filter((one) => one.value !== null).reduce(better, null);
}

// Describes the agreement of the chosen head and of the one that agrees most.
export function agreementOf({ state }, found) {
  const layers = found.agreement[state.over];
  const layer = Math.min(state.layer, layers.length - 1);
  const value = layers[layer][state.head === null ? 0 : state.head + 1];
  const best = bestAgreement(layers);
  const own = `agreement with ${headName(layer, state.head)}: ${told(value)}`;
  return best ? `${own}; highest with ${headName(best.layer, best.head)}: ${told(best.value)}` : own;
}

// A row per layer: the mean of its heads, then each head. A click selects the head in all views.
export function agreementBlock(shared, found) {
  const { state, colours, choose, header } = shared;
  const [layers, kind] = [found.agreement[state.over], kindOwedTo(header, state.over)];
  const heads = [...Array(header.model.heads).keys()];
  const cell = (value, layer, n) => {
    const head = n === 0 ? null : n - 1;
    const size = value === null ? 0 : value;
    const made = h("button", {
      type: "button", class: "switch", "aria-pressed": String(state.layer === layer && state.head === head),
      "aria-label": `${headName(layer, head)}: agreement ${told(value)}`, title: headName(layer, head),
      click: () => choose({ kind, layer, head }),
    }, told(value));
    made.style.setProperty("--tint", css(colours.signed(size)));
    made.style.setProperty("--on", colours.onSigned(size));
    return made;
  };
  const grid = h("div", { class: "switch-grid" },
    h("span", { class: "corner" }, ""), ["mean", ...heads].map((name) => h("span", { class: "corner" }, `${name}`)),
    layers.flatMap((row, layer) => [
      h("span", { class: "corner" }, `${layer}`), ...row.map((value, n) => cell(value, layer, n)),
    ]));
  grid.style.setProperty("--heads", heads.length + 1);
  return [
    h("p", { class: "lead" }, "Agreement with attention", h("small", {}, agreementOf(shared, found))),
    grid,
    h("p", { class: "note" }, MEANING_OF_AGREEMENT),
  ];
}
