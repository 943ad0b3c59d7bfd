// The difference of two grids over their common rows and columns: those with equal texts, in order.

import { changesOf } from "./diff.js";
import { gridOf, KINDS } from "./weights.js";

// [[n in a, n in b]]
export function pairsOf(a, b) {
  const texts = (units) => units.map((unit) => unit.text);
  const [gone, added] = changesOf(texts(a), texts(b));
  const left = (units, out) => [...units.keys()].filter((n) => !out.has(n));
  const [inA, inB] = [left(a, gone), left(b, added)];
  return inA.map((n, m) => [n, inB[m]]);
}

// {rows, columns: pairs, grid}: the grid holds b − a for common cells. `most` is its largest absolute value, which gets
// full colour.
export function differenceOf(a, b) {
  const [rows, columns] = [pairsOf(a.rows, b.rows), pairsOf(a.columns, b.columns)];
  const at = (grid, row, column) => grid.values[row * grid.columns.length + column];
  const values = Float64Array.from(
    rows.flatMap(([ra, rb]) => columns.map(([ca, cb]) => at(b, rb, cb) - at(a, ra, ca))));
  const most = values.reduce((found, value) => Math.max(found, Math.abs(value)), 0);
  const units = (of, pairs) => pairs.map(([n]) => of[n]);
  const grid = { ...a, rows: units(a.rows, rows), columns: units(a.columns, columns), values, most };
  return { rows, columns, grid };
}

// Distance between the attention of a and b: half the sum of absolute differences in a row (total variation distance),
// averaged over common rows. 0: identical; 1: no overlap. Keys that only one of them has count as well.
export function distanceOf(a, b, { rows, columns }) {
  if (!rows.length) return null;
  const total = rows.reduce((sum, [ra, rb]) => {
    const [mine, theirs] = [a.values.subarray(ra * a.columns.length), b.values.subarray(rb * b.columns.length)];
    let [apart, shared] = [0, 0];
    for (const [ca, cb] of columns) {
      apart += Math.abs(theirs[cb] - mine[ca]);
      shared += theirs[cb] + mine[ca];
    }
    const whole = sumOf(mine, a.columns.length) + sumOf(theirs, b.columns.length);
    return sum + (apart + whole - shared) / 2;
  }, 0);
  return total / rows.length;
}

function sumOf(values, count) {
  let sum = 0;
  for (let n = 0; n < count; n += 1) sum += values[n];
  return sum;
}

// {kind: [layer: [head: distance]]} for heads that both models have; null where weights are missing or too coarse.
export async function distances(a, b, state) {
  const least = (what) => Math.min(what(a.header.model), what(b.header.model));
  const heads = [...Array(least((model) => model.heads)).keys()];
  const ofLayer = async (kind, layer) => {
    const grid = (side, head) => gridOf({ ...side, state }, kind, layer, head);
    const pairs = await Promise.all(heads.map((head) => Promise.all([grid(a, head), grid(b, head)])));
    if (pairs.flat().some((found) => !found || found.block > 1)) return heads.map(() => null);
    const [[one, other]] = pairs;
    const common = { rows: pairsOf(one.rows, other.rows), columns: pairsOf(one.columns, other.columns) };
    return pairs.map(([mine, theirs]) => distanceOf(mine, theirs, common));
  };
  const found = await Promise.all(KINDS.map((kind) => {
    const layers = [...Array(least((model) => model.layers[kind])).keys()];
    return Promise.all(layers.map((layer) => ofLayer(kind, layer)));
  }));
  return Object.fromEntries(KINDS.map((kind, n) => [kind, found[n]]));
}

// The position of a cell of one grid in the others: {a, b, both}, each {row, column} or null.
export function placesIn({ rows, columns }, cell, side) {
  if (!cell) return { a: null, b: null, both: null };
  const find = (pairs, n) => (side === "both" ? n : pairs.findIndex((pair) => pair[side === "a" ? 0 : 1] === n));
  const [row, column] = [find(rows, cell.row), find(columns, cell.column)];
  const found = row >= 0 && column >= 0;
  const of = (n) => (found ? { row: rows[row][n], column: columns[column][n] } : null);
  return { a: of(0), b: of(1), both: found ? { row, column } : null, [side]: cell };
}
