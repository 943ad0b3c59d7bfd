// Attributions as grids: how much each output word depends on each input, by methods that do not use attention weights.

import { isLone, writes } from "./models.js";
import { isAtOnce } from "./rows.js";
import { firstOfKind, sidesOf } from "./weights.js";
import { merged, renormalised, rowsOf, unitsOf } from "./words.js";

export const METHODS = {
  "value-zeroing": "value-zeroing",
  "gradient-x-input": "gradient × input",
  "leave-one-out": "leave-one-out",
  "integrated-gradients": "integrated gradients",
};
const MEANINGS_OF_METHODS = {
  "value-zeroing":
    "How much a row of the decoder’s layers changes (1 − cosine) when the value vector of one piece is set to 0 in all "
    + "heads of an attention; mean of all layers, with rows that add up to 1.",
  "gradient-x-input":
    "Change in the log-probability of the output, in nats, if its gradient at this point held all the way to a zero "
    + "vector. Where a model is confident, gradients are small.",
  "leave-one-out":
    "Drop in the log-probability of the output, in nats, when the vector of one word is set to 0 and its position kept.",
  "integrated-gradients":
    "Gradients of the log-probability, added up along the path from zero vectors to the actual words, in nats.",
};

export function meaningOfMethod(header, method) {
  const text = MEANINGS_OF_METHODS[method];
  return writes(header) ? text : text.replace("the decoder’s", "the encoder’s");
}

// {method: numbers} that are available: those in the file or, on a live page, those requested so far.
export function attributionsOf({ header, asking }) {
  if (!asking) return header.attribution || {};
  return asking.attributions.number === header.number ? asking.attributions.found : {};
}

// A grid like that of an attention: {kind, rows, columns, values, …}. Values in nats are summed over the pieces of a
// word, as log-probabilities are; shares of 1 are averaged, as weights are.
export function attributionGrid({ header, state }, found, over) {
  const numbers = found[over];
  const kind = kindOwedTo(header, over);
  const sides = sidesOf(header, kind);
  const [high, wide] = [numbers.length, numbers[0].length];
  const plane = { shape: [1, high, wide], data: Float64Array.from(numbers.flat()) };
  const keep = (unit) => !(state.hide && unit.special);
  const queries = rowsOf(unitsOf(header[sides.queries], state.words), high, firstOfKind(header, kind));
  const rows = queries.filter(keep);
  const read = unitsOf(header[sides.keys], state.words).map((unit) => ({ ...unit, pieces: unit.pieces.filter((n) => n < wide) }));
  const columns = read.filter((unit) => unit.pieces.length > 0).filter(keep);
  const values = merged(plane, 0, rows, columns);
  if (found.signed) rows.forEach((unit, row) => times(values, row, columns.length, unit.rows.length));
  else if (state.hide) renormalised(values, columns.length);
  const bounds = kind === "decoder" && !isAtOnce(header) ? [null, 0] : [null, null];
  const most = found.signed ? values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) : undefined;
  return { kind, rows, columns, values, block: 1, hidden: state.hide, bounds, most };
}

// The attention from the attributed rows to that side.
export function kindOwedTo(header, over) {
  if (over === "target") return "decoder";
  return isLone(header) ? "encoder" : "cross";
}

function times(values, row, wide, factor) {
  for (let n = row * wide; n < (row + 1) * wide; n += 1) values[n] *= factor;
}

// Links for view 1: the share of each source word in the absolute attribution of a target word.
export function linksByAttribution(shared) {
  const found = attributionsOf(shared)[shared.state.method];
  if (!found) return null;
  const grid = attributionGrid(shared, found, "source");
  return { ...grid, values: renormalised(grid.values.map(Math.abs), grid.columns.length), most: undefined };
}
