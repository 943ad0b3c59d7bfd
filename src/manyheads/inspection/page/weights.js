// The grid that a view draws: the weights of one attention, of the units that are shown.

import { firstRow, isAtOnce, rowSentence } from "./rows.js";
import { merged, renormalised, rowsOf, unitsOf } from "./words.js";

export const KINDS = ["encoder", "decoder", "cross"];

// The names of what looks and of what is looked at: of places that are filled in, that is what was read there.
export function sidesOf(header, kind) {
  const target = isAtOnce(header) ? "read" : "target";
  return { queries: kind === "encoder" ? "source" : "target", keys: kind === "decoder" ? target : "source" };
}

// The piece that row 0 stands for.
export function firstOfKind(header, kind) {
  return kind === "encoder" ? 0 : firstRow(header);
}

export function headName(layer, head) {
  return `layer ${layer}, ${head === null ? "mean of heads" : `head ${head}`}`;
}

// {kind, rows, columns, values, block, hidden, bounds}, or null where the plane was left out.
export async function gridOf({ header, planes, state }, kind, layer, head, shift = 0) {
  const plane = await planes(`${kind}/${layer}`);
  return plane && (plane.block > 1 ? coarse(header, plane, kind, head) : full(header, plane, state, kind, head, shift));
}

function full(header, plane, state, kind, head, shift) {
  const sides = sidesOf(header, kind);
  const keep = (unit) => !(state.hide && unit.special);
  const queries = unitsOf(header[sides.queries], state.words);
  const keys = unitsOf(header[sides.keys], state.words);
  const rows = rowsOf(queries, plane.shape[1], firstOfKind(header, kind) - shift).filter(keep);
  const columns = keysOf(keys, plane.shape[2]).filter(keep);
  const values = merged(plane, head, rows, columns);
  if (state.hide) renormalised(values, columns.length);
  return { kind, rows, columns, values, block: 1, hidden: state.hide, bounds: header.model.bounds[kind] };
}

// The units of what is looked at.
export function readUnits(kind, side, asWords) {
  return keysOf(unitsOf(side, asWords), side.pieces.length - (kind === "decoder" ? 1 : 0));
}

// The last piece of a translation is written but never read: it is no key.
function keysOf(units, count) {
  const read = units.map((unit) => ({ ...unit, pieces: unit.pieces.filter((n) => n < count) }));
  return read.filter((unit) => unit.pieces.length > 0);
}

// Means of blocks stay what they are: they can be neither merged into words nor freed of begin and end.
function coarse(header, plane, kind, head) {
  const [, high, wide] = plane.shape;
  const sides = sidesOf(header, kind);
  const first = firstOfKind(header, kind);
  const columns = blocks(header[sides.keys], wide, plane.block, 0);
  const rows = blocks(header[sides.queries], high, plane.block, first);
  const values = merged(plane, head, rows.map((_, n) => ({ rows: [n] })), columns.map((_, n) => ({ pieces: [n] })));
  return { kind, rows, columns, values, block: plane.block, hidden: false, bounds: header.model.bounds[kind] };
}

function blocks(side, count, block, first) {
  return [...Array(count).keys()].map((n) => {
    const from = first + n * block;
    const pieces = [...Array(block).keys()].map((m) => from + m).filter((m) => m < side.pieces.length);
    const rows = pieces.map((m) => m - first);
    return { text: `${side.pieces[from].text}…`, pieces, rows, special: false };
  });
}

// The mean over every layer and head of the cross-attention.
export async function meanGrid(shared) {
  const layers = [...Array(shared.header.model.layers.cross).keys()];
  const grids = await Promise.all(layers.map((layer) => gridOf(shared, "cross", layer, null)));
  if (grids.some((grid) => grid === null || grid.block > 1)) return null;
  const values = grids[0].values.map((_, n) => grids.reduce((sum, grid) => sum + grid.values[n], 0) / grids.length);
  return { ...grids[0], values };
}

export function rowOf(grid, n) {
  return grid.values.subarray(n * grid.columns.length, (n + 1) * grid.columns.length);
}

export function columnOf(grid, n) {
  return grid.rows.map((_, row) => grid.values[row * grid.columns.length + n]);
}

// Which unit shows a piece; −1 where none does.
export function unitWith(units, piece) {
  return piece === null ? -1 : units.findIndex((unit) => unit.pieces.includes(piece));
}

// How far a row may look to its left and its right; null = as far as it likes. In the decoder not to what is yet to be
// written, in a window not beyond it: such a cell is no weight of 0, it was never scored.
export function isSeen([left, right], row, key) {
  return (left === null || key >= row - left) && (right === null || key <= row + right);
}

export function maskOf({ rows, columns, bounds }) {
  const [left, right] = bounds;
  const [low, high] = [rows.map((unit) => Math.min(...unit.rows)), rows.map((unit) => Math.max(...unit.rows))];
  const [first, last] = [columns.map((unit) => Math.min(...unit.pieces)), columns.map((unit) => Math.max(...unit.pieces))];
  return (row, column) =>
    (right !== null && first[column] > high[row] + right) || (left !== null && last[column] < low[row] - left);
}

// What a row of a decoder is about.
export function step(header, grid, row, shown) {
  if (grid.kind === "encoder" || grid.rows[row].rows.length > 1) return "";
  return rowSentence(header, grid.rows[row].rows[0], shown);
}
