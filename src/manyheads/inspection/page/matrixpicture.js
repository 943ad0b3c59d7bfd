// View 3 as a picture file. Cells are rectangles with their numbers; a grid with very many cells is one image.

import { coloursFor, hex, SCALE_NAMES, shadesOf } from "./colour.js";
import { s } from "./dom.js";
import { imageOf } from "./heatmap.js";
import { visible } from "./letters.js";
import { cellNumber, clamp } from "./numbers.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";
import { headName } from "./weights.js";

const MOST_CELLS = 4096;
const ROOMY = 30; // pixels: cells of this size have room for a number

export function matrixPicture({ header, state }, { grid, labels, masked }) {
  const cell = clamp(900 / grid.columns.length, 4, 40);
  const widest = (texts) => Math.max(0, ...texts.map((text) => textWidth(text, "13px sans-serif"))) * 1.1;
  const [left, top] = [widest(labels.rows) + 26, widest(labels.columns) * 0.78 + 26];
  const [wide, high] = [cell * grid.columns.length, cell * grid.rows.length];
  const scale = state.power === 1 ? "" : `; colours: ${SCALE_NAMES[state.power]}`;
  const where = `${visible(header.model.name || "model")}: ${grid.kind} ${headName(state.layer, state.head)}`;
  const caption = where + (grid.hidden ? "; begin and end hidden, rows rescaled to add up to 1" : "") + scale;
  const room = Math.max(left + wide + top * 0.8, textWidth(caption, "11px sans-serif") + 40);
  const picture = sheet(Math.ceil(room), Math.ceil(top + high + 48), caption);
  picture.append(gridPicture({ grid, labels, masked }, cell, state.power, [left, top]));
  return picture;
}

// The cells of a grid with the names of its rows and columns; its top left corner is at [left, top].
export function gridPicture({ grid, labels, masked }, cell, power, [left, top]) {
  const [wide, high] = [cell * grid.columns.length, cell * grid.rows.length];
  const map = s("g", { transform: `translate(${left.toFixed(1)},${top.toFixed(1)})` });
  if (grid.values.length > MOST_CELLS) map.append(asImage(grid, power, wide, high));
  else map.append(...cells(grid, labels, masked, cell, power));
  if (cell >= ROOMY) map.append(...numbersOf(grid, cell, power));
  map.append(s("rect", { width: wide, height: high, fill: "none", stroke: INK.line }));
  if (cell >= 9) map.append(...names(labels, cell));
  return map;
}

function asImage(grid, power, width, height) {
  const href = imageOf(grid, coloursFor("light"), power).toDataURL("image/png");
  return s("image", { href, width, height, preserveAspectRatio: "none", "image-rendering": "pixelated" });
}

function cells(grid, labels, masked, cell, power) {
  const [{ fill }, side] = [shadesOf(grid, coloursFor("light"), power), cell.toFixed(2)];
  return [...grid.values].map((value, n) => {
    const [row, column] = [Math.floor(n / grid.columns.length), n % grid.columns.length];
    const off = masked(row, column);
    const place = { x: (column * cell).toFixed(2), y: (row * cell).toFixed(2), width: side, height: side };
    const colour = off ? INK.line : hex(fill(value));
    const title = `${labels.rows[row]} – ${labels.columns[column]}: ${off ? "masked" : value.toFixed(4)}`;
    return s("rect", { ...place, fill: colour, stroke: INK.paper, "stroke-width": 0.5 }, s("title", {}, title));
  });
}

function numbersOf(grid, cell, power) {
  const { on } = shadesOf(grid, coloursFor("light"), power);
  return [...grid.values].map((value, n) => {
    const [row, column] = [Math.floor(n / grid.columns.length), n % grid.columns.length];
    const place = { x: ((column + 0.5) * cell).toFixed(1), y: ((row + 0.5) * cell).toFixed(1), dy: "0.35em" };
    const look = { "text-anchor": "middle", "font-size": 11, fill: on(value) };
    const text = cellNumber(value, grid.most !== undefined);
    return text ? s("text", { ...place, ...look }, text) : null;
  }).filter(Boolean);
}

function names(labels, cell) {
  const middle = (n) => ((n + 0.5) * cell).toFixed(1);
  const row = (text, n) => s("text", { x: -8, y: middle(n), dy: "0.35em", "text-anchor": "end" }, text);
  const column = (text, n) => s("text", { transform: `translate(${middle(n)},-8) rotate(-50)` }, text);
  return [...labels.rows.map(row), ...labels.columns.map(column)];
}
