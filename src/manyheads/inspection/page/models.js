// What the model of a page is made of, and which views and tables make sense of it: an encoder and a decoder, an encoder
// alone, or a decoder alone, which is a language model; one token after the other, or all at once. What a model has not
// got is not in its header.

import { firstRow, isAtOnce } from "./rows.js";
import { KINDS } from "./weights.js";

const EVERY_VIEW = [
  "iterations", "align", "lines", "matrix", "map", "steps", "beam", "lens", "switches", "attribution", "inside", "flow", "compare",
  "replay", "heads", "pieces", "tables",
];
const EVERY_FORM = [
  "iterations", "alignment", "attention", "candidates", "hypotheses", "layers", "heads", "report", "attribution", "replay", "pieces",
];
// Of one text there is nothing to align; who writes nothing has no steps, and nothing that a head could do for them.
const OF_TWO_TEXTS = ["align", "beam", "compare", "replay", "heads"];
const OF_WRITING = ["steps", "lens", "switches"];
const FORMS_OF_TWO_TEXTS = ["alignment", "hypotheses", "report", "replay"];
const FORMS_OF_WRITING = ["candidates", "layers"];
// Who writes all at once has iterations, or a graph, in the place of steps and a search.
const OF_ITERATIONS = ["iterations"];
const OF_STEPS = ["steps", "beam", "compare", "replay", "heads"];
const FORMS_OF_STEPS = ["hypotheses", "report", "replay"];
export const ROLES_OF_TWO = {
  encoder: "the source at itself",
  decoder: "the translation at itself",
  cross: "the translation at the source",
};
const ROLES_OF_ONE = { encoder: "the text at itself", decoder: "the text at what stands before" };

export function kindsIn({ model }) {
  return KINDS.filter((kind) => kind in model.layers);
}

export function sidesIn(header) {
  return ["source", "target"].filter((side) => header[side]);
}

// Sides whose pieces, one after the other, spell a text: the vertices of a graph do not.
export function speltSides(header) {
  return sidesIn(header).filter((side) => header.spelling[side]);
}

// A language model, or an encoder alone.
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

// What the model wrote, as its own sentences call it.
export function nameOfOutput(header) {
  return isLone(header) ? "text" : "translation";
}

// The first piece that a model wrote by itself: a translator all of them, a language model those behind its prompt.
export function firstWritten(header) {
  const { given, forced, target } = header;
  return given === undefined || forced ? firstRow(header) : Math.min(given, target.pieces.length - 1);
}

// Of a language model: was this piece of its text given to it, or written by it?
export function wasGiven(header, piece) {
  return header.given !== undefined && (header.forced || piece < header.given);
}
