// What is told about iterations and their places.

import { visible } from "./letters.js";
import { exact } from "./numbers.js";
import { cutOf, takenTry } from "./rows.js";

export const MASK_SIGN = "▢";

// The length that is looked at.
export function attemptNow({ header, state }) {
  return state.attempt === null ? takenTry(header) : header.tries[state.attempt];
}

// Its place; null where none is chosen. Of the length that was taken it is the selection of all views.
export function placeNow(shared) {
  const one = attemptNow(shared);
  const chosen = one.taken ? shared.state.target : shared.state.place;
  return chosen !== null && chosen < one.length ? chosen : null;
}

// Three digits: lengths that were tried are often close.
export function scoreText(score) {
  return score.toFixed(3).replace("-", "−");
}

// The place that changed its mind most often: the first that is worth a look.
export function restless({ iterations, length }) {
  const changes = [...Array(length).keys()].map((n) => iterations.filter((one) => one.changed[n]).length);
  return changes.indexOf(Math.max(...changes));
}

export function leastSure(one) {
  const least = Math.min(...one.log_probability);
  return `‘${visible(one.pieces[one.log_probability.indexOf(least)])}’ ${exact(Math.exp(least))}`;
}

// Behind the first end nothing counts.
export function isGone({ cut }, n) {
  return cut !== null && n > cut;
}

export function nowMasked({ written }) {
  return `${written.filter(Boolean).length} of ${written.length} places were masked and written`;
}

// What became of a place in an iteration: how sure the model was before, and is now.
export function fateOf({ iterations }, pass, n) {
  const one = iterations[pass];
  if (pass === 0) return "written for the first time";
  const before = iterations[pass - 1];
  const then = `‘${visible(before.pieces[n])}’ ${exact(Math.exp(before.log_probability[n]))}`;
  if (!one.written[n]) return "kept as it was";
  return one.changed[n] ? `masked, and written again; before: ${then}` : `masked, and written again the same; before: ${then}`;
}

export function cellTold(attempt, pass, n) {
  const one = attempt.iterations[pass];
  const gone = isGone(one, n) ? "; behind the first end, and cut off" : "";
  const said = `‘${visible(one.pieces[n])}’ ${exact(Math.exp(one.log_probability[n]))}`;
  return `iteration ${pass + 1}, place ${n + 1}: ${said}, ${fateOf(attempt, pass, n)}${gone}`;
}

// All of it: every length, iteration and place.
export function iterationTable({ tries }) {
  const names = ["places", "taken", "iteration", "place", "piece", "probability", "written", "changed"];
  return [names, ...tries.flatMap((attempt) => attempt.iterations.flatMap((one, pass) => one.pieces.map((piece, n) => [
    attempt.length, Number(attempt.taken), pass + 1, n + 1, piece, Math.exp(one.log_probability[n]).toFixed(6),
    Number(one.written[n]), Number(one.changed[n]),
  ])))];
}

// The length that is looked at, for who reads tables: an iteration a row.
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
  return { caption: `What stood in each of ${attempt.length} places after every iteration, and how sure the model was${cut}${tried}`, columns, rows };
}
