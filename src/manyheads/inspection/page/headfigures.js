// The figures of the head report (header.report, see headreport.py): where each head attends, its role, and what is
// lost without it.

import { clamp, hundredths } from "./numbers.js";

const LOST = "Above 0 the head helps; below 0 the model did better without it.";
const SURE = "Bold: chance alone would produce a difference this large at most once in 20 times.";

// `lost`: the figure is signed. `whole`: it is a share of 1; other figures are scaled by the largest of all heads.
export const FIGURES = {
  bleu: { name: "BLEU lost", lost: true, text: `BLEU with all heads − BLEU without this one. ${LOST} ${SURE}` },
  chrf: { name: "chrF lost", lost: true, text: `chrF with all heads − chrF without this one. ${LOST} ${SURE}` },
  log_probability: {
    name: "log-prob. lost", lost: true,
    text: `Log-probability of the references with all heads − without this one, in nats per piece. ${LOST} ` +
      "Bold: at least two standard errors from 0.",
  },
  aligned: {
    name: "aligned", whole: true, text: "Weight on the source piece that a piece of the translation is aligned with.",
  },
  previous: {
    name: "previous", whole: true,
    text: "Weight on the piece before the row’s own. In the decoder, a row’s own piece is the one it has just read.",
  },
  same: {
    name: "same", whole: true,
    text: "Weight on the row’s own piece. In the decoder, that is the piece it has just read.",
  },
  next: {
    name: "next", whole: true, text: "Weight on the piece after the row’s own. The decoder cannot attend to it.",
  },
  ends: {
    name: "begin, end", whole: true,
    text: "Weight on begin and end, where heads attend that have nothing to contribute.",
  },
  evenness: {
    name: "evenness", whole: true,
    text: "Entropy relative to that of uniform attention over all visible pieces: 1 is uniform.",
  },
  entropy: { name: "entropy", text: "How spread out the attention of a head is, in nats: 0 means a single piece." },
  distance: {
    name: "distance",
    text: "Mean distance to the pieces attended to, in pieces; in cross-attention, from an evenly paced alignment.",
  },
};
export const CHANCE = 0.05;
const ERRORS = 2; // standard errors from 0, from which on a number is bold

// `short` fits into a cell, `sign` into a narrow one; `hue` is an index into the colours of hues.js.
export const ROLES_OF_HEADS = {
  previous: { short: "previous", sign: "←", hue: 0, text: "the piece before its own" },
  same: { short: "same", sign: "●", hue: 1, text: "its own piece" },
  next: { short: "next", sign: "→", hue: 2, text: "the piece after its own" },
  "begin and end": { short: "ends", sign: "⊢", hue: 6, text: "begin and end" },
  aligns: { short: "aligns", sign: "⇄", hue: 5, text: "the piece that its own is aligned with" },
  spread: { short: "spread", sign: "▒", hue: 8, text: "all pieces, nearly evenly" },
  "no single role": { short: "", sign: "", hue: null, text: "no place in particular" },
};

export const figureNames = Object.keys(FIGURES);
export const SORTS = ["head", "role", ...figureNames];

// The value of a figure; undefined if a head has none.
export function reported(one, figure) {
  return FIGURES[figure].lost ? one.lost[figure] : one.looks[figure];
}

// True if chance alone is unlikely to produce the value.
export function isSure(one, figure) {
  if (figure === "log_probability") {
    const error = one.lost.log_probability_error;
    return error !== null && Math.abs(one.lost.log_probability) >= ERRORS * error;
  }
  const p = one.lost[`${figure}_p`]; // null with too few pairs
  return Boolean(FIGURES[figure].lost) && p !== null && p <= CHANCE;
}

// The position of each head on its colour ramp: −1 to 1 for losses, by the square root, since a few heads matter most;
// 0 to 1 for other figures.
export function standing(heads, figure) {
  const { lost, whole } = FIGURES[figure];
  const most = Math.max(...heads.map((one) => Math.abs(reported(one, figure) || 0)), 1e-9);
  return (one) => {
    const value = reported(one, figure);
    if (value === undefined) return null;
    if (lost) return Math.sign(value) * Math.sqrt(Math.abs(value) / most);
    return clamp(whole ? value : value / most, 0, 1);
  };
}

// A figure with two decimals, log-probabilities with three; with `precise`, always four.
export function shownFigure(one, figure, precise = false) {
  const value = reported(one, figure);
  if (value === undefined) return "–";
  if (!precise && figure !== "log_probability") return hundredths(value);
  const text = value.toFixed(precise ? 4 : 3);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

export function nameInReport({ kind, layer, head }) {
  return `${kind} ${layer}.${head}`;
}

export function roleOf(one) {
  return one.role === "aligns" && one.read ? "aligns, as it reads" : one.role;
}

// Heads sorted by a column. Heads without the figure come last; ties keep the order of the model.
export function sortedHeads(heads, sort, up) {
  const roles = Object.keys(ROLES_OF_HEADS);
  const places = { head: (one) => heads.indexOf(one), role: (one) => roles.indexOf(one.role) };
  const place = places[sort] || ((one) => reported(one, sort));
  const value = (one) => (place(one) === undefined ? -Infinity : (up ? -1 : 1) * place(one));
  return [...heads].sort((a, b) => (value(a) === value(b) ? 0 : value(b) - value(a)));
}

export function searchName({ search }) {
  return search.beam === 1 ? "greedy" : `beam ${search.beam}`;
}

// The rule that defines roles, with its thresholds.
export function ruleOf({ share, spread, reading }) {
  return `The role of a head is the place that gets at least ${share} of its weight, on average over all rows that have ` +
    `a choice; if several do, the one with the most. A head without such a place is ‘spread’ if its evenness is at ` +
    `least ${spread}. Alignments are the model’s own (cross-attention ${reading}).`;
}
