// The rows of a stage: strips, bars and pieces with their numbers. The page, the table and the picture file are made
// from the same rows.
//
//   {type: "strip", label, values, norm, of}     the first of `of` numbers of a vector, and the vector's length
//   {type: "sign", text}                         the operation between two strips
//   {type: "bars", items: [{text, share, told, value, masked, chosen}]}
//   {type: "pieces", items: [{text, id, chosen, row}]}

import { exact, percent, signed } from "./numbers.js";

export const CELLS = 16;
const MOST_KEYS = 24;
const MOST_MIXED = 6;

// walk: from `walkAt` in flow.js; its part(name, side, row) gives {norm, values} of one word at one part.
export function rowsOfStage(stage, walk) {
  return MAKERS_OF_ROWS[stage.name](stage, walk);
}

const MAKERS_OF_ROWS = {
  pieces: (_, { read, row }) => [piecesRow(read, row, 0)],
  vectors: (_, { part, width, scaled }) => [
    vectorRow("E[piece]", part("words"), width),
    ...(scaled ? [sign(`× √${width}`), vectorRow("x", part("scaled"), width)] : [])],
  segment: (_, { part, width }) => [
    vectorRow("x", part("words"), width), sign("+"), vectorRow("s", part("segment"), width)],
  position: (_, { part, width, scaled, segment, settled }) => [
    vectorRow("x", part(scaled ? "scaled" : "words"), width),
    ...(segment ? [sign("+"), vectorRow("s", part("segment"), width)] : []),
    sign("+"), vectorRow("p", part("position"), width), sign("="),
    vectorRow(segment ? "x + s + p" : "x + p", part(settled ? "summed" : "embedded"), width)],
  settled: (_, { part, width }) => [
    vectorRow("x", part("summed"), width), sign("norm"), vectorRow("x", part("embedded"), width)],
  norm: (stage, walk) => evenRows(stage, walk),
  before: (stage, walk) => evenRows(stage, walk),
  project: projectRows,
  scores: (_, { found, keyPieces, key }) => [
    headStrip("q", found.q), sign("· each k"), scoreBars(found, keyPieces, key)],
  softmax: (_, { found, keyPieces, key }) => [scoreBars(found, keyPieces, key), sign("softmax"), weightBars(found, keyPieces, key)],
  mix: mixRows,
  join: joinRows,
  add: addRows,
  hidden: hiddenRows,
  back: (stage, { part, width, hidden }) => [
    vectorRow("h", part(`${at(stage)}hidden`), hidden), sign("W₂ ·"), vectorRow("y", part(`${at(stage)}y`), width)],
  onto: addRows,
  last: (_, { part, width }) => [vectorRow("x", part("last/x"), width), sign("norm"), vectorRow("x", part("last/normed"), width)],
  logits: (stage, walk) => [
    vectorRow("x", endOf(walk), walk.width), sign("· each E[piece]"), candidateBars(walk, (one) => one.log_probability + walk.logSum, signed)],
  choice: (stage, walk) => [candidateBars(walk, (one) => Math.exp(one.log_probability), exact)],
  word: (_, { pieces, piece, first, step }) => [
    piecesRow(first ? pieces.slice(0, piece + 1) : pieces, piece, first), // all at once: later pieces exist, too
    sign(`probability ${exact(Math.exp(step.log_probability))}${step.rank ? `, rank ${step.rank + 1}` : ", the likeliest"}`)],
};

// ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function at({ layer, sublayer }) {
  return `${layer}/${sublayer}/`;
}

function sign(text) {
  return { type: "sign", text };
}

function vectorRow(label, { norm, values }, of, more = {}) {
  return { type: "strip", label, values: values.slice(0, of), norm, of, ...more };
}

function headStrip(label, vector, more = {}) {
  const norm = Math.hypot(...vector);
  return { type: "strip", label, values: [...vector.slice(0, CELLS)], norm, of: vector.length, ...more };
}

// A click on piece n follows row n − first.
function piecesRow(side, chosen, first) {
  return { type: "pieces", items: side.map(({ text, id }, n) => ({ text, id, chosen: n === chosen, row: n - first })) };
}

// The input of a sublayer, after the norm in a pre-norm model.
function readBy(stage, { part, pre }) {
  return part(`${at(stage)}${pre ? "normed" : "x"}`);
}

// The vector that logits are computed from.
function endOf({ part, pre, layers }) {
  return part(pre ? "last/normed" : `${layers.decoder - 1}/feedforward/normed`);
}

// The encoder output for a source piece; null if each decoder layer reads a different encoder layer.
export function memoryOf({ part, pre, layers, sameDepth }, row) {
  if (sameDepth) return null;
  return part(pre ? "last/normed" : `${layers.encoder - 1}/feedforward/normed`, "source", row);
}

function evenRows(stage, { part, width }) {
  return [vectorRow("x", part(`${at(stage)}x`), width), sign("norm"), vectorRow("x", part(`${at(stage)}normed`), width)];
}

function projectRows(stage, walk) {
  const { found, head, key, keyPieces, width, queryPiece } = walk;
  const chosen = found.keys[key];
  const cross = stage.kind === "cross";
  const memory = cross ? memoryOf(walk, key) : null;
  const about = keyPieces[key].text;
  return [
    vectorRow("x", readBy(stage, walk), width, { about: queryPiece }),
    memory ? vectorRow("m", memory, width, { about }) : null,
    sign(`W_q, W_k, W_v of head ${head}`),
    headStrip("q", found.q, { about: queryPiece, group: "q" }),
    headStrip("k", chosen.key, { about, group: "k" }),
    headStrip("v", chosen.value, { about, group: "v" }),
  ].filter(Boolean);
}

function scoreBars({ keys }, pieces, chosen) {
  const most = Math.max(1e-9, ...keys.filter((key) => !key.masked).map((key) => Math.abs(key.score)));
  const items = keys.map((key) => ({
    text: pieces[key.n].text, share: key.masked ? 0 : key.score / most, value: key.score, masked: key.masked,
    told: key.masked ? "masked" : signed(key.score), chosen: key.n === chosen,
  }));
  return barsRow("score", items);
}

function weightBars({ keys }, pieces, chosen) {
  return barsRow("weight", keys.map((key) => ({
    text: pieces[key.n].text, share: key.weight, value: key.weight, masked: key.masked,
    told: key.masked ? "0, masked" : exact(key.weight), chosen: key.n === chosen,
  })));
}

// Of many bars, the heaviest are shown in their original order and the rest are counted.
function barsRow(label, items) {
  if (items.length <= MOST_KEYS) return { type: "bars", label, items };
  const ranked = [...items.keys()].sort((a, b) => Math.abs(items[b].share) - Math.abs(items[a].share));
  const kept = new Set(ranked.slice(0, MOST_KEYS));
  return { type: "bars", label, items: items.filter((one, n) => kept.has(n) || one.chosen), rest: items.length - MOST_KEYS };
}

function mixRows(stage, { found, keyPieces, head, off, means }) {
  const ranked = [...found.keys].sort((a, b) => b.weight - a.weight).slice(0, MOST_MIXED);
  const rest = found.keys.length - ranked.length;
  const share = ranked.reduce((sum, key) => sum + key.weight, 0);
  const rows = ranked.map((key) => headStrip(
    `${exact(key.weight)} ×`, key.value.map((value) => key.weight * value), { about: keyPieces[key.n].text }));
  const others = rest > 0 ? [sign(`+ ${rest} more, ${percent(1 - share)} of the weight`)] : [];
  const silent = off ? [sign(`this head is off: ${means ? "its mean" : "0"} is passed on instead`)] : [];
  return [...rows, ...others, sign("Σ"), headStrip(`head ${head}`, found.output, { group: "sum" }), ...silent];
}

function joinRows(stage, { all, head, part, width, instead, means }) {
  const strips = all.map((found, n) => headStrip(`head ${n}`, instead.has(n) ? instead.get(n) : found.output, {
    chosen: n === head, note: instead.has(n) ? (means ? "off: its mean" : "off") : "",
  }));
  return [...strips, sign("W_O ·"), vectorRow("y", part(`${at(stage)}y`), width, { group: "y" })];
}

function addRows(stage, { part, width, pre }) {
  const rows = [
    vectorRow("x", part(`${at(stage)}x`), width), sign("+"), vectorRow("y", part(`${at(stage)}y`), width), sign("="),
    vectorRow("x + y", part(`${at(stage)}sum`), width),
  ];
  return pre ? rows : [...rows, sign("norm"), vectorRow("x", part(`${at(stage)}normed`), width, { group: "normed" })];
}

function hiddenRows(stage, walk) {
  const { part, width, hidden, activation } = walk;
  const gated = activation === "swiglu";
  const active = part(`${at(stage)}active`).norm;
  return [
    vectorRow("x", readBy(stage, walk), width, { group: "x" }), sign(gated ? "W₁ · and W₃ ·" : "W₁ ·"),
    vectorRow(gated ? "W₁·x" : "before", part(`${at(stage)}up`), hidden),
    gated ? vectorRow("W₃·x", part(`${at(stage)}gate`), hidden) : null,
    sign(activation),
    vectorRow("h", part(`${at(stage)}hidden`), hidden, { note: `${active.toLocaleString("en")} of ${hidden.toLocaleString("en")} are not 0` }),
  ].filter(Boolean);
}

function candidateBars({ step, written }, value, told) {
  const values = step.candidates.map(value);
  const [least, most] = [Math.min(0, ...values), Math.max(1e-9, ...values)];
  return barsRow("", step.candidates.map((one, n) => ({
    text: one.text, value: values[n], share: (values[n] - least) / (most - least), told: told(values[n]), masked: false,
    chosen: one.id === written,
  })));
}

// ── the vectors of all words at a stage ─────────────────────────────────────────────────────────────────────────────

// The name of the part that a stage outputs; null if a stage has no such vector.
export function handedOn(stage, pre, parts) {
  const within = stage.layer === null ? "" : at(stage);
  const last = pre ? "sum" : "normed";
  const names = {
    vectors: parts.includes("scaled") ? "scaled" : "words", settled: "embedded",
    position: parts.includes("summed") ? "summed" : "embedded", norm: `${within}normed`, before: `${within}normed`, join: `${within}y`,
    add: `${within}${last}`, hidden: `${within}hidden`, back: `${within}y`, onto: `${within}${last}`, last: "last/normed",
  };
  return names[stage.name] || null;
}
