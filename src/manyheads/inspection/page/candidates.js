// The candidates of a decoding step with their probabilities, and how the written one ranked.

import { h } from "./dom.js";
import { spelt, visible } from "./letters.js";
import { isLone, wasGiven } from "./models.js";
import { exact } from "./numbers.js";

const GIVEN = "the translation was given, not searched for";
const FARTHER = "the search compares complete translations, not single pieces";
const READ_ONLY = "this piece was given, not written";
const NEVER = "the likelier pieces are special ones that are never written";
const HALF = "Decoding cannot continue from this piece: it is special, or only part of a character";

export function marginOf(step) {
  const [first, second] = step.candidates.map((candidate) => Math.exp(candidate.log_probability));
  return first - (second || 0);
}

function whyNotFirst(header, n) {
  if (isLone(header)) return wasGiven(header, n) ? READ_ONLY : NEVER;
  return header.forced ? GIVEN : FARTHER;
}

// Facts about the step that writes piece n.
export function facts(header, n) {
  const [step, given] = [header.steps[n - 1], wasGiven(header, n)];
  const why = step.rank ? h("small", {}, ` ${whyNotFirst(header, n)}`) : null;
  const told = [
    [given ? "given" : "written", [h("bdi", {}, `‘${visible(header.target.pieces[n].text)}’`)]],
    ["probability", [exact(Math.exp(step.log_probability))]],
    ["rank", [`${step.rank + 1}`, why]],
    ["entropy", [`${exact(step.entropy)} nats`]],
    ["margin", [exact(marginOf(step))]],
  ];
  return told.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
}

// [[rank, candidate]]: the likeliest candidates, followed by the written one if it is not among them.
export function shownOf(step, written) {
  const shown = step.candidates.map((candidate, n) => [n, candidate]);
  if (step.candidates.some((candidate) => candidate.id === written.id)) return shown;
  return [...shown, [step.rank, { text: written.text, id: written.id, log_probability: step.log_probability }]];
}

// The candidates of the step that writes piece n. `choose` is null on pages that cannot continue from another one.
export function candidateList(header, n, choose) {
  const [step, piece, tag] = [header.steps[n - 1], header.target.pieces[n], wasGiven(header, n) ? "given" : "written"];
  return shownOf(step, piece).map(([rank, candidate]) => item(rank, candidate, candidate.id === piece.id ? tag : "", choose));
}

function item(rank, candidate, written, choose) {
  const share = Math.exp(candidate.log_probability);
  const bar = h("span", { class: "bar" });
  bar.style.setProperty("--share", share);
  const parts = [
    h("span", { class: "rank" }, `${rank + 1}`),
    h("bdi", { class: "label" }, spelt(candidate.text, true)),
    bar,
    h("span", { class: "number" }, exact(share)),
    h("span", { class: "tag" }, written),
  ];
  if (written) return h("li", {}, h("div", { class: "candidate written", "aria-current": "true" }, parts));
  if (!choose) return h("li", {}, h("div", { class: "candidate" }, parts));
  if (!canGoOn(candidate)) return h("li", {}, h("div", { class: "candidate", title: HALF }, parts));
  const act = () => choose(candidate);
  return h("li", {}, h("button", { type: "button", class: "candidate", title: "Continue from here", click: act }, parts));
}

// ⟨end⟩ adds no text but can be chosen; begin and padding (ids 0 and 1) are never written.
function canGoOn(candidate) {
  return candidate.id > 1 && candidate.adds !== null;
}

export function stepTable({ steps, target }) {
  const header = ["step", "piece", "rank", "candidate", "probability", "written", "entropy", "margin"];
  const rows = steps.flatMap((step, n) => shownOf(step, target.pieces[n + 1]).map(([rank, candidate]) => [
    n + 1, target.pieces[n + 1].text, rank + 1, candidate.text, Math.exp(candidate.log_probability).toFixed(6),
    Number(candidate.id === target.pieces[n + 1].id), step.entropy.toFixed(6), marginOf(step).toFixed(6),
  ]));
  return [header, ...rows];
}
