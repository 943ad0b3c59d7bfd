// A vector as a strip: one cell per number, blue above 0, orange below.

import { h } from "./dom.js";
import { clamp } from "./numbers.js";

// `most` is the value with full colour; `tell(n)` gives the tooltip of cell n.
export function strip(values, most, colours, tip, tell) {
  const canvas = h("canvas", { class: "strip", width: values.length, height: 1 });
  const context = canvas.getContext("2d");
  const image = context.createImageData(values.length, 1);
  values.forEach((value, n) => image.data.set([...colours.signed(most ? value / most : 0), 255], 4 * n));
  context.putImageData(image, 0, 0);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const n = clamp(Math.floor(((event.clientX - box.left) / box.width) * values.length), 0, values.length - 1);
    tip.show(event, tell(n));
  });
  canvas.addEventListener("pointerleave", tip.hide);
  return canvas;
}

export function greatest(...vectors) {
  return vectors.reduce((most, values) => values.reduce((a, b) => Math.max(a, Math.abs(b)), most), 0);
}
