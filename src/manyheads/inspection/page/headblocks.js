// All heads in blocks: one per kind of attention, layers downwards and heads to the right.

import { h } from "./dom.js";
import { roleOfKind } from "./models.js";

const [SMALLEST, LARGEST] = [26, 84]; // pixels of a thumbnail
const [SPACE, MARGINS, APART_BLOCKS] = [6, 33, 28]; // between thumbnails, beside them, between blocks

// buttonAt(layer, head) gives the button of a head.
export function headBlock(header, kind, buttonAt) {
  const heads = [...Array(header.model.heads).keys()];
  const numbers = heads.map((n) => h("span", { class: "number-of" }, String(n)));
  const row = (layer) => [h("span", { class: "number-of layer", "data-place": `${kind} ${layer}` }, String(layer)),
    ...heads.map((head) => buttonAt(layer, head))];
  const corner = h("span", { class: "number-of first" }, "layer");
  const layers = [...Array(header.model.layers[kind]).keys()];
  const grid = h("div", { class: "thumbs" }, corner, numbers, layers.flatMap(row));
  return h("section", { class: "block", role: "group", "aria-label": kind },
    h("h3", {}, kind, h("small", {}, roleOfKind(header, kind))), h("div", { class: "scroll" }, grid));
}

// Puts as many blocks in a row as fit, and sizes the thumbnails to fill it.
export function fitBlocks(element, heads, largest = LARGEST, blocks = 3) {
  const room = element.clientWidth;
  if (!room) return;
  const sizes = [3, 2, 1].filter((across) => across <= blocks).map((across) => ((room - (across - 1) * APART_BLOCKS) / across - MARGINS) / heads - SPACE);
  const size = sizes.find((one) => one >= SMALLEST) || SMALLEST;
  element.style.setProperty("--size", `${Math.floor(Math.min(size, largest))}px`);
  element.style.setProperty("--heads", heads);
}

// The next thumbnail in the direction of an arrow key, by screen position: blocks may stand side by side or wrap.
export function nearest(all, from, key) {
  const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[key];
  if (!way) return null;
  const middle = (element) => {
    const box = element.getBoundingClientRect();
    return [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
  };
  const [x, y] = middle(from);
  let [best, least] = [null, Infinity];
  for (const one of all) {
    const [u, v] = middle(one);
    const ahead = (u - x) * way[0] + (v - y) * way[1];
    const aside = Math.abs((u - x) * way[1]) + Math.abs((v - y) * way[0]);
    if (ahead > 1 && ahead + 4 * aside < least) [best, least] = [one, ahead + 4 * aside];
  }
  return best;
}
