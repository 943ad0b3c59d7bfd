// Attributions: what each written word owes to what was read, by methods that do not ask where heads looked; as grids.

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
    "How much a row of the decoder’s layers changes (1 − cosine) when the value of one piece is 0 in all heads of an "
    + "attention; rows add up to 1, and it is the mean of all layers.",
  "gradient-x-input":
    "How much the log-probability of what was written would change, in nats, if the slope at this point held all the "
    + "way to no word at all. Where a model is sure of itself, slopes are flat.",
  "leave-one-out":
    "How much less likely what was written becomes, in nats, when the vector of one word is 0 and its place stays.",
  "integrated-gradients":
    "Slopes of the log-probability, added up on the way from no words at all to these; in nats.",
};

export function meaningOfMethod(header, method) {
  const text = MEANINGS_OF_METHODS[method];
  return writes(header) ? text : text.replace("the decoder’s", "the encoder’s");
}

// {method: numbers} that are there: in a page on its own those that were put in, in a live one those asked for.
export function attributionsOf({ header, asking }) {
  if (!asking) return header.attribution || {};
  return asking.attributions.number === header.number ? asking.attributions.found : {};
}

// {kind, rows, columns, values, …} as of an attention. What several pieces owe is added up, as their log-probabilities
// are. Shares of 1 are averaged, as weights are.
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

// The attention that looks at that side from where rows are.
export function kindOwedTo(header, over) {
  if (over === "target") return "decoder";
  return isLone(header) ? "encoder" : "cross";
}

function times(values, row, wide, factor) {
  for (let n = row * wide; n < (row + 1) * wide; n += 1) values[n] *= factor;
}

// As links of view 1: how large a share of its debts a word owes to each source word, whichever sign they have.
export function linksByAttribution(shared) {
  const found = attributionsOf(shared)[shared.state.method];
  if (!found) return null;
  const grid = attributionGrid(shared, found, "source");
  return { ...grid, values: renormalised(grid.values.map(Math.abs), grid.columns.length), most: undefined };
}
