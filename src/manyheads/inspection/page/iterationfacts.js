// Texts and tables about iterations and their places.

import { visible } from "./letters.js";
import { exact } from "./numbers.js";
import { cutOf, takenTry } from "./rows.js";

export const MASK_SIGN = "▢";

// The tried length that is shown.
export function attemptNow({ header, state }) {
  return state.attempt === null ? takenTry(header) : header.tries[state.attempt];
}

// The chosen place in it, or null. For the length that was taken, the place is the selection shared by all views.
export function placeNow(shared) {
  const one = attemptNow(shared);
  const chosen = one.taken ? shared.state.target : shared.state.place;
  return chosen !== null && chosen < one.length ? chosen : null;
}

// Three decimals, because the scores of tried lengths are often close.
export function scoreText(score) {
  return score.toFixed(3).replace("-", "−");
}

// The place whose word changed most often; the first if several did.
export function restless({ iterations, length }) {
  const changes = [...Array(length).keys()].map((n) => iterations.filter((one) => one.changed[n]).length);
  return changes.indexOf(Math.max(...changes));
}

export function leastSure(one) {
  const least = Math.min(...one.log_probability);
  return `‘${visible(one.pieces[one.log_probability.indexOf(least)])}’ ${exact(Math.exp(least))}`;
}

// Places after the first end are cut off.
export function isGone({ cut }, n) {
  return cut !== null && n > cut;
}

export function nowMasked({ written }) {
  return `${written.filter(Boolean).length} of ${written.length} places were masked and written`;
}

// What happened to a place in an iteration, with its former word and probability.
export function fateOf({ iterations }, pass, n) {
  const one = iterations[pass];
  if (pass === 0) return "written for the first time";
  const before = iterations[pass - 1];
  const then = `‘${visible(before.pieces[n])}’ ${exact(Math.exp(before.log_probability[n]))}`;
  if (!one.written[n]) return "kept";
  return one.changed[n] ? `masked and rewritten; before: ${then}` : `masked and rewritten unchanged; before: ${then}`;
}

export function cellTold(attempt, pass, n) {
  const one = attempt.iterations[pass];
  const gone = isGone(one, n) ? "; after the first end, cut off" : "";
  const said = `‘${visible(one.pieces[n])}’ ${exact(Math.exp(one.log_probability[n]))}`;
  return `iteration ${pass + 1}, place ${n + 1}: ${said}, ${fateOf(attempt, pass, n)}${gone}`;
}

// Every length, iteration and place.
export function iterationTable({ tries }) {
  const names = ["places", "taken", "iteration", "place", "piece", "probability", "written", "changed"];
  return [names, ...tries.flatMap((attempt) => attempt.iterations.flatMap((one, pass) => one.pieces.map((piece, n) => [
    attempt.length, Number(attempt.taken), pass + 1, n + 1, piece, Math.exp(one.log_probability[n]).toFixed(6),
    Number(one.written[n]), Number(one.changed[n]),
  ])))];
}

// The shown length as a table with a row per iteration, for the text form.
export function iterationForm(shared) {
  const attempt = attemptNow(shared);
  const told = (one, n) => {
    const what = one.written[n] ? (one.changed[n] ? ", written, changed" : ", written") : ", kept";
    return `${visible(one.pieces[n])} ${exact(Math.exp(one.log_probability[n]))}${what}`;
  };
  const rows = attempt.iterations.map((one, pass) => [`${pass + 1}`, leastSure(one), ...one.pieces.map((_, n) => told(one, n))]);
  const columns = ["iteration", "least sure", ...[...Array(attempt.length).keys()].map((n) => `place ${n + 1}`)];
  const tried = shared.header.tries.length > 1 ? `; ${shared.header.tries.length} lengths were tried` : "";
  const cut = cutOf(attempt) === null ? "" : `; cut at place ${cutOf(attempt) + 1}, the first end`;
  return { caption: `The words in ${attempt.length} places after every iteration, with their probabilities${cut}${tried}`, columns, rows };
}
