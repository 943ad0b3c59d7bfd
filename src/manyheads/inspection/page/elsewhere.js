// The distance between the attention of A and B for every head. A click shows that head.

import { css } from "./colour.js";
import { button } from "./controls.js";
import { h, rove } from "./dom.js";
import { cellNumber, exact } from "./numbers.js";
import { stepIn } from "./switchblock.js";
import { headName, KINDS } from "./weights.js";

const MEANING = "Total variation distance between rows, on average: 0 means identical attention, 1 no overlap.";

function nameOfHead({ kind, layer, head }) {
  return `${kind} ${headName(layer, head)}`;
}

// found: {kind: [layer: [head: distance or null]]}
export function distanceBoards(found, shared) {
  const boards = KINDS.map((kind) => distanceBoard(kind, found[kind], shared));
  const farthest = farthestOf(found);
  return [
    h("p", { class: "lead" }, "Distance between A and B, per head", h("small", {}, MEANING)),
    farthest ? button(`Show the most different head: ${nameOfHead(farthest)}`, () => shared.choose(farthest)) : null,
    h("div", { class: "boards" }, boards),
  ];
}

function farthestOf(found) {
  const ofLayer = (kind, row, layer) => row.map((distance, head) => [distance, { kind, layer, head }]);
  const all = KINDS.flatMap((kind) => found[kind].flatMap((row, layer) => ofLayer(kind, row, layer)));
  const [distance, place] = all.reduce((best, one) => (one[0] > best[0] ? one : best), [0, null]);
  return distance > 0 ? place : null;
}

function distanceBoard(kind, layers, { state, colours, say, choose }) {
  const heads = layers[0].length;
  const cellOf = (distance, layer, head) => {
    const name = `${nameOfHead({ kind, layer, head })}: ${distance === null ? "not comparable" : exact(distance)}`;
    const current = state.kind === kind && state.layer === layer && state.head === head;
    const told = () => say(name);
    const cell = h("button", {
      type: "button", class: "switch", "aria-label": name, "aria-current": current ? "true" : null, title: name,
      click: () => choose({ kind, layer, head }), pointerenter: told, focus: told,
    }, distance === null ? "" : cellNumber(distance, false));
    if (distance !== null) {
      cell.style.setProperty("--tint", css(colours.weight(distance)));
      cell.style.setProperty("--on", colours.onWeight(distance));
    }
    return cell;
  };
  const rows = layers.map((row, layer) => row.map((distance, head) => cellOf(distance, layer, head)));
  const corners = ["layer", ...Array(heads).keys()].map((text) => h("span", { class: "corner" }, String(text)));
  const labelled = rows.flatMap((row, layer) => [h("span", { class: "group" }, String(layer)), ...row]);
  const grid = h("div", { class: "switch-grid", role: "group", "aria-label": kind }, corners, labelled);
  grid.style.setProperty("--heads", heads);
  rove(rows.flat(), 0);
  const element = h("section", {}, h("p", { class: "lead" }, kind), grid);
  element.addEventListener("keydown", (event) => stepIn(rows, event));
  return element;
}
