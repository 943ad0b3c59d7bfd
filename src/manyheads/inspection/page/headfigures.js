// What a report on heads says of each (header.report, see headreport.py): where it looks, what that makes it, and what
// is lost without it.

import { clamp, hundredths } from "./numbers.js";

const LOST = "Above 0 it helps, below 0 the model did better without it.";
const SURE = "Bold: chance alone would make as large a difference once in 20 times at most.";

// Each in one sentence. `lost`: it has a sign; `whole`: it is a share of 1, else it is measured against the largest.
export const FIGURES = {
  bleu: { name: "BLEU lost", lost: true, text: `BLEU with all heads − BLEU without this one. ${LOST} ${SURE}` },
  chrf: { name: "chrF lost", lost: true, text: `chrF with all heads − chrF without this one. ${LOST} ${SURE}` },
  log_probability: {
    name: "log-prob. lost", lost: true,
    text: `What the log-probability of the references loses without this head, in nats per piece. ${LOST} ` +
      "Bold: at least two standard errors from 0.",
  },
  aligned: {
    name: "aligned", whole: true, text: "Weight on the source piece that a piece of the translation belongs to.",
  },
  previous: {
    name: "previous", whole: true,
    text: "Weight on the piece before a row’s own; in the decoder, its own is the one just read.",
  },
  same: { name: "same", whole: true, text: "Weight on a row’s own piece; in the decoder, the one just read." },
  next: { name: "next", whole: true, text: "Weight on the piece after a row’s own. A decoder cannot look there." },
  ends: {
    name: "begin, end", whole: true, text: "Weight on begin and end, where heads look that have nothing to say.",
  },
  evenness: {
    name: "evenness", whole: true,
    text: "Entropy as a share of that of an even look at all that may be seen: 1 is even.",
  },
  entropy: { name: "entropy", text: "How spread the look of a head is, in nats: 0 is one place alone." },
  distance: {
    name: "distance",
    text: "How far away lies what is looked at, in pieces; across, from where an even pace would be.",
  },
};
export const CHANCE = 0.05;
const ERRORS = 2; // standard errors from 0, beyond which a number is sure

// A word that fits into a cell, a sign that fits into a narrow one, and a hue (of hues.js).
export const ROLES_OF_HEADS = {
  previous: { short: "previous", sign: "←", hue: 0, text: "the piece before its own" },
  same: { short: "same", sign: "●", hue: 1, text: "its own piece" },
  next: { short: "next", sign: "→", hue: 2, text: "the piece after its own" },
  "begin and end": { short: "ends", sign: "⊢", hue: 6, text: "begin and end" },
  aligns: { short: "aligns", sign: "⇄", hue: 5, text: "the piece that its own belongs to" },
  spread: { short: "spread", sign: "▒", hue: 8, text: "everywhere, nearly evenly" },
  "no single role": { short: "", sign: "", hue: null, text: "here and there" },
};

export const figureNames = Object.keys(FIGURES);
export const SORTS = ["head", "role", ...figureNames];

// The number; undefined where a head has none.
export function reported(one, figure) {
  return FIGURES[figure].lost ? one.lost[figure] : one.looks[figure];
}

// Would chance alone hardly make such a number?
export function isSure(one, figure) {
  if (figure === "log_probability") {
    const error = one.lost.log_probability_error;
    return error !== null && Math.abs(one.lost.log_probability) >= ERRORS * error;
  }
  const p = one.lost[`${figure}_p`]; // of few pairs it is not told
  return Boolean(FIGURES[figure].lost) && p !== null && p <= CHANCE;
}

// Where each stands for its colour: −1 to 1 for what is lost, by the square root, for few heads do most; else 0 to 1.
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

// With two digits, of log-probabilities three; `precise`: with four.
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

// In the order that a column asks for; heads without such a number come last, equal ones stay as they are in the model.
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

// The rule that roles follow, with its numbers.
export function ruleOf({ share, spread, reading }) {
  return `A role is the place where a head puts at least ${share} of its weight, on average over all rows that have ` +
    `a choice; of several the one with the most. Without such a place it is ‘spread’ if its evenness is at least ` +
    `${spread}. What belongs together is what the model’s own alignment says (cross-attention ${reading}).`;
}
