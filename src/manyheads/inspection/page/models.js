// The kind of model on a page, and the views and tables that make sense for it: encoder-decoder, encoder alone, or
// decoder alone (a language model); writing token by token or all at once. Parts that a model does not have are missing
// from its header.

import { firstRow, isAtOnce } from "./rows.js";
import { KINDS } from "./weights.js";

const EVERY_VIEW = [
  "iterations", "align", "lines", "matrix", "map", "steps", "beam", "lens", "switches", "attribution", "inside", "flow", "compare",
  "replay", "heads", "pieces", "tables",
];
const EVERY_FORM = [
  "iterations", "alignment", "attention", "candidates", "hypotheses", "layers", "heads", "report", "attribution", "replay", "pieces",
];
// A single text has nothing to align; a model that writes nothing has no steps, and no output that heads could change.
const OF_TWO_TEXTS = ["align", "beam", "compare", "replay", "heads"];
const OF_WRITING = ["steps", "lens", "switches"];
const FORMS_OF_TWO_TEXTS = ["alignment", "hypotheses", "report", "replay"];
const FORMS_OF_WRITING = ["candidates", "layers"];
// A model that writes all at once has iterations, or a graph, in place of steps and a search.
const OF_ITERATIONS = ["iterations"];
const OF_STEPS = ["steps", "beam", "compare", "replay", "heads"];
const FORMS_OF_STEPS = ["hypotheses", "report", "replay"];
export const ROLES_OF_TWO = {
  encoder: "source to itself",
  decoder: "translation to itself",
  cross: "translation to source",
};
const ROLES_OF_ONE = { encoder: "text to itself", decoder: "text to what precedes it" };

export function kindsIn({ model }) {
  return KINDS.filter((kind) => kind in model.layers);
}

export function sidesIn(header) {
  return ["source", "target"].filter((side) => header[side]);
}

// Sides whose pieces in order spell a text, unlike the vertices of a graph.
export function speltSides(header) {
  return sidesIn(header).filter((side) => header.spelling[side]);
}

// True for a language model or an encoder alone.
export function isLone(header) {
  return sidesIn(header).length === 1;
}

export function writes(header) {
  return Boolean(header.target);
}

function offered(header, all, ofTwo, ofWriting, ofSteps) {
  const idle = [isLone(header) ? ofTwo : [], writes(header) ? [] : ofWriting, isAtOnce(header) ? ofSteps : OF_ITERATIONS].flat();
  return all.filter((name) => !idle.includes(name));
}

export function viewsOf(header) {
  return offered(header, EVERY_VIEW, OF_TWO_TEXTS, OF_WRITING, OF_STEPS);
}

export function formsIn(header) {
  return offered(header, EVERY_FORM, FORMS_OF_TWO_TEXTS, FORMS_OF_WRITING, FORMS_OF_STEPS);
}

export function roleOfKind(header, kind) {
  return (isLone(header) ? ROLES_OF_ONE : ROLES_OF_TWO)[kind];
}

export function nameOfSide(header, side) {
  return isLone(header) ? "Text" : { source: "Source", target: "Translation" }[side];
}

// The word for the model's output within sentences.
export function nameOfOutput(header) {
  return isLone(header) ? "text" : "translation";
}

// The first piece that the model wrote by itself: the first of a translation, or the first after a prompt.
export function firstWritten(header) {
  const { given, forced, target } = header;
  return given === undefined || forced ? firstRow(header) : Math.min(given, target.pieces.length - 1);
}

// True if this piece of a language model's text was given to it instead of written by it.
export function wasGiven(header, piece) {
  return header.given !== undefined && (header.forced || piece < header.given);
}
