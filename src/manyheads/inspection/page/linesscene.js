// The content of view 2: two columns of words, and the weights between them or within one.
//
// A scene is {columns: [left, right], sets}. A column is {name, side, units}; `name` is the selection's name for a word
// in it. A set holds the weights of one head: {kind, layer, head, grid, query, key, rows, keys}. `query` and `key` are
// the columns of its queries and keys; `rows` and `keys` map rows and columns of the grid to units of these columns.

import { percent } from "./numbers.js";
import { severalHeads } from "./selection.js";
import { gridOf, KINDS, maskOf, sidesOf, unitWith } from "./weights.js";
import { unitsOf } from "./words.js";

// The heads that are on; null stands for the mean.
export function headsOn({ state, header }) {
  if (state.heads === null) return [state.head];
  return state.heads ? state.heads.split(".").map((name) => (name === "mean" ? null : Number(name))) : [];
}

// The change of the selection that switches a head on or off. A single remaining head becomes that of all views.
export function toggled(shared, head, on) {
  const next = headsOn(shared).filter((one) => one !== head).concat(on ? [head] : []);
  if (next.length === 1) return { head: next[0], heads: null };
  const names = next.map((one) => (one === null ? "mean" : String(one))).join(".");
  return { head: on ? head : shared.state.head, heads: severalHeads(names, shared.header) };
}

export function layerOf(state, kind) {
  return state.three && kind === "encoder" ? state.below : state.layer;
}

// null if the weights of a layer were left out.
export async function sceneOf(shared) {
  const kinds = shared.state.three ? KINDS : [shared.state.kind];
  const places = (kind) => headsOn(shared).map((head) => ({ kind, head, layer: layerOf(shared.state, kind) }));
  const wanted = kinds.flatMap(places);
  const grids = await Promise.all(wanted.map(({ kind, layer, head }) => gridOf(shared, kind, layer, head)));
  if (grids.some((grid) => !grid || grid.block > 1)) return null;
  const { three } = shared.state;
  const columns = three ? bothSides(shared) : await keysAndQueries(shared);
  const setOf = (place, n) => inColumns({ ...place, grid: grids[n] }, columns, three);
  return columns && { columns, sets: wanted.map(setOf) };
}

function bothSides({ header, state }) {
  const units = (side) => unitsOf(header[side], state.words).filter((unit) => !(state.hide && unit.special));
  return ["source", "target"].map((side) => ({ name: side, side, units: units(side) }));
}

// The columns are the same whichever heads are on, and even if none is.
async function keysAndQueries(shared) {
  const { kind, layer } = shared.state;
  const grid = await gridOf(shared, kind, layer, null);
  if (!grid || grid.block > 1) return null;
  const { queries, keys } = sidesOf(shared.header, kind);
  return [
    { name: kind === "cross" ? "source" : "other", side: keys, units: grid.columns },
    { name: queries, side: queries, units: grid.rows },
  ];
}

function inColumns(set, columns, three) {
  const at = (ofSource, alone) => (three ? columns.findIndex((column) => (column.side === "source") === ofSource) : alone);
  const [query, key] = [at(set.kind === "encoder", 1), at(set.kind !== "decoder", 0)];
  const among = (column, units) => units.map((unit) => unitWith(columns[column].units, unit.pieces[0]));
  return { ...set, query, key, rows: among(query, set.grid.rows), keys: among(key, set.grid.columns) };
}

// ── the weights drawn as lines ──────────────────────────────────────────────────────────────────────────────────────

// {lines, count, share}: the heaviest weights, the number of all weights, and the share of the total that the lines
// hold. With `word`, {column, n}, only its own lines. A line is {set, row, column, from, to, weight}: `from` attends to
// `to`, both {column, n}.
export function linesOf(scene, most, word = null) {
  const found = scene.sets.flatMap((set) => (word ? ofWord(set, word) : heaviestOf(set, most)));
  const lines = found.filter((one) => one.weight > 0).sort((a, b) => b.weight - a.weight).slice(0, most);
  const [count, total] = word ? [found.length, added64(found)] : wholeOf(scene);
  return { lines, count, share: total ? added64(lines) / total : 0 };
}

// A part is never given as 100 %.
export function countOf(shown, count, share) {
  const part = shown < count && share >= 0.995 ? "over 99 %" : percent(share);
  return `${shown} of ${count} weights, ${part} of all weight`;
}

function added64(lines) {
  return lines.reduce((sum, one) => sum + one.weight, 0);
}

function lineAt(set, row, column) {
  const weight = set.grid.values[row * set.grid.columns.length + column];
  const [from, to] = [{ column: set.query, n: set.rows[row] }, { column: set.key, n: set.keys[column] }];
  return { set, row, column, from, to, weight };
}

// At most `most` weights of a set can be among the heaviest overall; for the others no objects are created.
function heaviestOf(set, most) {
  const values = set.grid.values;
  const least = values.length > most ? values.slice().sort()[values.length - most] : 0;
  const wide = set.grid.columns.length;
  const found = [];
  values.forEach((weight, n) => {
    if (weight > 0 && weight >= least) found.push(lineAt(set, Math.floor(n / wide), n % wide));
  });
  return found;
}

// The weights from a word and to it, without masked ones.
function ofWord(set, { column, n }) {
  const masked = maskOf(set.grid);
  const [row, key] = [set.query === column ? set.rows.indexOf(n) : -1, set.key === column ? set.keys.indexOf(n) : -1];
  const across = row < 0 ? [] : set.grid.columns.map((_, other) => [row, other]);
  const down = key < 0 ? [] : set.grid.rows.map((_, other) => [other, key]).filter(([other]) => other !== row);
  return [...across, ...down].filter((place) => !masked(...place)).map((place) => lineAt(set, ...place));
}

function wholeOf(scene) {
  let [count, total] = [0, 0];
  for (const { grid } of scene.sets) {
    const masked = maskOf(grid);
    grid.values.forEach((weight, n) => {
      if (masked(Math.floor(n / grid.columns.length), n % grid.columns.length)) return;
      count += 1;
      total += weight;
    });
  }
  return [count, total];
}
