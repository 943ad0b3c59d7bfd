// View 12 as a picture file: A, B and their difference, side by side.

import { s } from "./dom.js";
import { visible } from "./letters.js";
import { gridPicture } from "./matrixpicture.js";
import { clamp, signed } from "./numbers.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";
import { headName } from "./weights.js";

export const NAMES_OF_SIDES = { a: "A", b: "B", both: "B − A" };

export function comparePicture({ state }, shown) {
  if (!shown) return sheet(300, 60, "Nothing to compare");
  const sides = Object.entries(shown.sides);
  const most = Math.max(...sides.map(([, { grid }]) => grid.columns.length));
  const cell = clamp(420 / most, 4, 40);
  const widest = (texts) => Math.max(0, ...texts.map((text) => textWidth(text, "13px sans-serif"))) * 1.1;
  const left = sides.map(([, { labels }]) => widest(labels.rows) + 26);
  const wide = sides.map(([, { grid }]) => cell * grid.columns.length);
  const top = Math.max(...sides.map(([, { labels }]) => widest(labels.columns))) * 0.78 + 56;
  const high = cell * Math.max(...sides.map(([, { grid }]) => grid.rows.length));
  const sum = (lengths) => lengths.reduce((a, b) => a + b, 0);
  const starts = sides.map((_, n) => sum(left.slice(0, n + 1)) + sum(wide.slice(0, n)) + 44 * n);
  const last = sides.length - 1;
  const lines = captionOf(shown, state);
  const longest = Math.max(...lines.map((line) => textWidth(line, "11px sans-serif")));
  const width = Math.max(starts[last] + wide[last] + top * 0.7, longest + 40);
  const picture = sheet(Math.ceil(width), Math.ceil(top + high + 34 + 16 * lines.length), lines[lines.length - 1]);
  lines.slice(0, -1).forEach((line, n) => {
    const y = (top + high + 28 + 16 * n).toFixed(1);
    picture.append(s("text", { x: 16, y, "font-size": 11, fill: INK.soft }, line));
  });
  sides.forEach(([side, one], n) => {
    picture.append(
      s("text", { x: starts[n].toFixed(1), y: 22, "font-weight": 600 }, NAMES_OF_SIDES[side]),
      gridPicture(one, cell, state.power, [starts[n], top]));
  });
  return picture;
}

function captionOf({ pair, most }, state) {
  const told = ({ header }) => {
    const off = header.off.map(([kind, layer, head]) => `${kind} ${layer}.${head}`).join(", ");
    const who = visible(header.model.name || "model") + (off ? ` without ${off}` : "");
    return `${who}: ${visible(header.source.text)} → ${visible(header.translation)}`;
  };
  const where = `${state.kind} ${headName(state.layer, state.head)}; full colour of a difference: ±${signed(most)}`;
  return [`A  ${told(pair[0])}`, `B  ${told(pair[1])}`, where];
}
