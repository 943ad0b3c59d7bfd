// The grid that a view draws: the weights of one attention for the units (words or pieces) that are shown.

import { firstRow, isAtOnce, rowSentence } from "./rows.js";
import { merged, renormalised, rowsOf, unitsOf } from "./words.js";

export const KINDS = ["encoder", "decoder", "cross"];

// The sides of queries and keys. In a model that writes all at once, the decoder's keys are the pieces it reads.
export function sidesOf(header, kind) {
  const target = isAtOnce(header) ? "read" : "target";
  return { queries: kind === "encoder" ? "source" : "target", keys: kind === "decoder" ? target : "source" };
}

// The index of the piece that row 0 stands for.
export function firstOfKind(header, kind) {
  return kind === "encoder" ? 0 : firstRow(header);
}

export function headName(layer, head) {
  return `layer ${layer}, ${head === null ? "mean of heads" : `head ${head}`}`;
}

// {kind, rows, columns, values, block, hidden, bounds}, or null if the plane was left out.
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

// The units of the keys.
export function readUnits(kind, side, asWords) {
  return keysOf(unitsOf(side, asWords), side.pieces.length - (kind === "decoder" ? 1 : 0));
}

// The last piece of a translation is written but never read, so it is not a key.
function keysOf(units, count) {
  const read = units.map((unit) => ({ ...unit, pieces: unit.pieces.filter((n) => n < count) }));
  return read.filter((unit) => unit.pieces.length > 0);
}

// Means of blocks cannot be merged into words, nor can begin and end be hidden.
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

// The mean over all layers and heads of the cross-attention.
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

// The index of the unit that contains a piece, or −1.
export function unitWith(units, piece) {
  return piece === null ? -1 : units.findIndex((unit) => unit.pieces.includes(piece));
}

// `left` and `right` bound how far a row may attend; null means no bound. A decoder cannot attend to later pieces, a
// window not beyond its ends: such cells are not weights of 0, they were never scored.
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

// Describes a row of a decoder; empty for other rows.
export function step(header, grid, row, shown) {
  if (grid.kind === "encoder" || grid.rows[row].rows.length > 1) return "";
  return rowSentence(header, grid.rows[row].rows[0], shown);
}
