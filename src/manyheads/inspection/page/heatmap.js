// A heat map on a canvas. The weights become one small image with a pixel each, which is drawn once and enlarged: a
// grid of 512 × 512 costs as much as one of 10 × 10. Labels, lines and numbers are added where they fit.

import { shadesOf } from "./colour.js";
import { cellNumber, clamp, exact } from "./numbers.js";
import { textWidth } from "./ruler.js";
import { maskOf } from "./weights.js";

const TALLEST = 620; // pixels of grid; larger grids have to be panned
const LARGEST_CELL = 58;
const SMALLEST_LABEL = 13; // pixels per label
const ROOM_FOR_NUMBERS = 32;
const LAST_LABEL = 30; // pixels that a slanted label extends beyond its column
const BAR = 34; // length of the longest bar for a total
const SLANT = Math.PI / 3.6;
const LONGEST_LABEL = 150;
export const LABEL_FONT = 12;

// An image with one pixel per weight. Masked cells are transparent, so that the hatching behind them shows.
export function imageOf(grid, colours, power) {
  const [high, wide] = [grid.rows.length, grid.columns.length];
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext("2d");
  const image = context.createImageData(wide, high);
  const [{ fill }, masked] = [shadesOf(grid, colours, power), maskOf(grid)];
  for (let n = 0; n < grid.values.length; n += 1) {
    const [row, column] = [Math.floor(n / wide), n % wide];
    if (masked(row, column)) continue;
    image.data.set(fill(grid.values[n]), 4 * n);
    image.data[4 * n + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// The layout for a canvas of that width. `zoom` 1 fits the complete grid; `totals` get bars beside and below it.
export function placesOf({ grid, labels, totals }, width, zoom, font) {
  const rows = Math.min(Math.max(0, ...labels.rows.map((text) => textWidth(text, font))), LONGEST_LABEL, width / 3);
  const columns = Math.min(Math.max(0, ...labels.columns.map((text) => textWidth(text, font))), LONGEST_LABEL);
  const left = Math.ceil(rows) + 14;
  const [right, below] = totals ? [BAR + 24, BAR + 12] : [LAST_LABEL, 6];
  const room = Math.max(40, width - left - right);
  const fit = Math.min(room / grid.columns.length, TALLEST / grid.rows.length, LARGEST_CELL);
  const cell = zoom === 1 ? fit : Math.max(fit, Math.min(fit * zoom, 2 * LARGEST_CELL));
  const flat = columns + 10 <= cell;
  const top = flat ? 28 : Math.ceil(columns * Math.sin(SLANT)) + 22;
  const wide = Math.min(room, cell * grid.columns.length);
  const high = Math.min(TALLEST, cell * grid.rows.length);
  const whole = [cell * grid.columns.length, cell * grid.rows.length];
  return { left, top, cell, flat, wide, high, whole, width: left + wide + right, height: top + high + below };
}

export function panned(places, [x, y]) {
  return [clamp(x, 0, places.whole[0] - places.wide), clamp(y, 0, places.whole[1] - places.high)];
}

export function cellAt(grid, places, [panX, panY], x, y) {
  const [inX, inY] = [x - places.left, y - places.top];
  if (inX < 0 || inY < 0 || inX >= places.wide || inY >= places.high) return null;
  const [column, row] = [Math.floor((inX + panX) / places.cell), Math.floor((inY + panY) / places.cell)];
  return row < grid.rows.length && column < grid.columns.length ? { row, column } : null;
}

// what: {grid, image, labels, places, pan, lit, pinned, totals, ink, colours, power}
export function paint(context, what) {
  const { grid, image, places, pan } = what;
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  context.save();
  context.beginPath();
  context.rect(places.left, places.top, places.wide, places.high);
  context.clip();
  context.translate(places.left - pan[0], places.top - pan[1]);
  if (grid.kind === "decoder") hatch(context, what);
  context.imageSmoothingEnabled = places.cell < 1;
  context.drawImage(image, 0, 0, ...places.whole);
  if (places.cell >= 9) rule(context, what);
  if (places.cell >= ROOM_FOR_NUMBERS) writeNumbers(context, what);
  cross(context, what);
  context.restore();
  context.strokeStyle = what.ink.line;
  context.strokeRect(places.left - 0.5, places.top - 0.5, places.wide + 1, places.high + 1);
  writeLabels(context, what);
  if (what.totals) drawTotals(context, what);
}

function hatch(context, { places, ink }) {
  const [wide, high] = places.whole;
  context.strokeStyle = ink.faint;
  context.lineWidth = 0.6;
  context.beginPath();
  for (let x = -high; x < wide; x += 6) {
    context.moveTo(x, high);
    context.lineTo(x + high, 0);
  }
  context.stroke();
}

function rule(context, { grid, places, ink }) {
  const [wide, high] = places.whole;
  context.strokeStyle = ink.card;
  context.lineWidth = 1;
  context.beginPath();
  for (let n = 1; n < grid.columns.length; n += 1) context.rect(n * places.cell, 0, 0, high);
  for (let n = 1; n < grid.rows.length; n += 1) context.rect(0, n * places.cell, wide, 0);
  context.stroke();
}

function writeNumbers(context, { grid, places, colours, power, ink }) {
  const { on } = shadesOf(grid, colours, power);
  context.font = `11px ${ink.sans}`;
  [context.textAlign, context.textBaseline] = ["center", "middle"];
  grid.values.forEach((value, n) => {
    context.fillStyle = on(value);
    const [row, column] = [Math.floor(n / grid.columns.length), n % grid.columns.length];
    context.fillText(cellNumber(value, grid.most !== undefined), (column + 0.5) * places.cell, (row + 0.5) * places.cell);
  });
}

// Marks the row and the column of the cell under the mouse and of the pinned cell.
function cross(context, { places, lit, pinned, ink }) {
  const [wide, high] = places.whole;
  const size = places.cell;
  const frame = (cell, width) => {
    context.lineWidth = width;
    context.strokeStyle = ink.mark;
    if (cell.row >= 0) context.strokeRect(0.5, cell.row * size, wide - 1, size);
    if (cell.column >= 0) context.strokeRect(cell.column * size, 0.5, size, high - 1);
  };
  if (pinned) frame(pinned, 1.5);
  if (!lit) return;
  context.fillStyle = ink.veil;
  context.fillRect(0, lit.row * size, wide, size);
  context.fillRect(lit.column * size, 0, size, high);
  context.lineWidth = 2;
  context.strokeStyle = ink.mark;
  context.strokeRect(lit.column * size, lit.row * size, size, size);
}

// Writes every label if there is room, otherwise every second, third …; highlighted ones always.
function writeLabels(context, what) {
  const { grid, labels, places, pan, lit, pinned, ink } = what;
  const chosen = [lit, pinned].filter(Boolean);
  const every = Math.max(1, Math.ceil(SMALLEST_LABEL / places.cell));
  const loud = (axis, n) => chosen.some((cell) => cell[axis] === n);
  const near = (axis, n) => every > 1 && chosen.some((cell) => Math.abs(cell[axis] - n) < every);
  const write = (axis, units, from, length, offset, put) => units.forEach((unit, n) => {
    const at = (n + 0.5) * places.cell - offset;
    if (at < 0 || at > length || (!loud(axis, n) && (n % every || near(axis, n)))) return;
    context.fillStyle = loud(axis, n) ? ink.mark : unit.special ? ink.soft : ink.ink;
    context.font = `${loud(axis, n) ? 600 : 400} ${LABEL_FONT}px ${ink.sans}`;
    put(labels[from][n], at);
  });
  context.textBaseline = "middle";
  write("row", grid.rows, "rows", places.high, pan[1], (text, at) => {
    context.textAlign = "right";
    context.fillText(cut(context, text, places.left - 12), places.left - 8, places.top + at);
  });
  write("column", grid.columns, "columns", places.wide, pan[0], (text, at) => {
    context.save();
    context.translate(places.left + at, places.top - 9);
    if (!places.flat) context.rotate(-SLANT);
    context.textAlign = places.flat ? "center" : "left";
    context.fillText(cut(context, text, LONGEST_LABEL), 0, 0);
    context.restore();
  });
}

export function cut(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let kept = [...text];
  while (kept.length > 1 && context.measureText(`${kept.join("")}…`).width > room) kept = kept.slice(0, -1);
  return `${kept.join("")}…`;
}

function drawTotals(context, { grid, places, pan, totals, lit, ink }) {
  const most = Math.max(...totals.columns, 1e-9);
  const thick = clamp(places.cell * 0.5, 1, 8);
  const [beside, below] = [places.left + places.wide + 5, places.top + places.high + 5];
  const show = (n, axis) => (context.fillStyle = lit && lit[axis] === n ? ink.mark : ink.faint);
  grid.columns.forEach((_, n) => {
    const at = (n + 0.5) * places.cell - pan[0];
    if (at < 0 || at > places.wide) return;
    show(n, "column");
    const long = (BAR * totals.columns[n]) / most;
    context.fillRect(places.left + at - thick / 2, below, thick, long);
  });
  grid.rows.forEach((_, n) => {
    const at = (n + 0.5) * places.cell - pan[1];
    if (at < 0 || at > places.high) return;
    show(n, "row");
    context.fillRect(beside, places.top + at - thick / 2, BAR * Math.min(1, totals.rows[n]), thick);
  });
  if (!lit) return;
  context.fillStyle = ink.mark;
  context.font = `11px ${ink.sans}`;
  [context.textAlign, context.textBaseline] = ["left", "top"];
  context.fillText(`Σ ${exact(totals.columns[lit.column])}`, beside, below);
}

export function totalsOf(grid) {
  const rows = new Float64Array(grid.rows.length);
  const columns = new Float64Array(grid.columns.length);
  grid.values.forEach((value, n) => {
    rows[Math.floor(n / columns.length)] += value;
    columns[n % columns.length] += value;
  });
  return { rows, columns };
}
