// The selection shared by all views, and its address, so that views can be linked to.
//
// Positions are always those of pieces: a word is selected if one of its pieces is. In self-attention the key lies on
// the same side as its query; it is called `other`.

import { STAGES } from "./flowstages.js";
import { figureNames, ROLES_OF_HEADS, SORTS } from "./headfigures.js";
import { MEASURES, ORDERS } from "./measures.js";
import { METHODS } from "./methods.js";
import { formsIn, isLone, kindsIn, sidesIn, viewsOf } from "./models.js";
import { TRACKS } from "./moments.js";

const LINKS = ["best", "all", "head", "attribution"];
export const POWERS = [1, 2, 3, 0]; // the root taken of a weight before it becomes a colour; 0 stands for the logarithm
export const MOSTS = [10, 20, 40, 60, 100, 150, 200, 300, 400, 500]; // maximum numbers of lines

const LETTERS = {
  view: "v", kind: "k", layer: "l", head: "h", source: "s", target: "t", other: "o",
  words: "w", hide: "x", power: "p", links: "a",
  three: "all", below: "e", heads: "on", most: "n", measure: "m", order: "r",
  node: "b", pruned: "pr", form: "f", method: "q", over: "u", stage: "g",
  moment: "at", track: "c", attempt: "try", pass: "i", place: "pl",
  figure: "y", sort: "z", up: "up", role: "j",
};
// The changes that the back button undoes.
const STEPS = [
  "view", "kind", "layer", "head", "words", "hide", "links", "three", "below", "heads", "measure", "order",
  "pruned", "form", "method", "over", "stage", "attempt",
  "track",
  "figure", "sort", "up", "role",
];

export function firstSelection(header) {
  const reading = header.reading;
  const kind = kindsIn(header).pop(); // the cross-attention, if there is one
  return {
    view: header.replay ? "replay" : header.report ? "heads" : viewsOf(header)[0],
    kind,
    layer: reading ? reading.layer : header.model.layers[kind] - 1,
    head: reading ? reading.head : null,
    source: null,
    target: null,
    other: null,
    words: true,
    hide: false,
    power: 1,
    links: reading ? "best" : "all",
    three: !isLone(header), // lines of all three attentions at once; `below` is then the encoder layer
    below: isLone(header) ? 0 : header.model.layers.encoder - 1,
    heads: null, // the heads whose lines are shown, "0.3.mean"; null: the one that all views share
    most: 60,
    measure: "entropy",
    order: "layers",
    node: null, // of the beam tree; null: the winning hypothesis
    pruned: true,
    form: formsIn(header)[0],
    method: "value-zeroing", // of attribution; `over` is the side attributed to
    over: sidesIn(header)[0],
    stage: null, // of the flow; null: the first
    attempt: null, // the tried length that is shown; null: the one that was taken
    pass: null, // its iteration; null: the last
    place: null, // its place, unless it is the length that was taken: then `target` is
    moment: null, // of training, by its step; null: the last
    track: "formed", // the measure that is followed over training steps
    figure: "bleu", // of the head report: what colours it, then how its table is sorted, and the highlighted role
    sort: "log_probability",
    up: false,
    role: null,
  };
}

// Only differences from the first selection are written, so an untouched page has an empty address.
export function toAddress(state, first) {
  const told = Object.keys(LETTERS).filter((key) => state[key] !== first[key]);
  return told.map((key) => `${LETTERS[key]}=${spoken(state[key])}`).join("&");
}

function spoken(value) {
  if (value === null) return "-";
  return typeof value === "boolean" ? Number(value) : value;
}

// Addresses come from outside: values that do not exist are ignored.
export function fromAddress(text, header) {
  const first = firstSelection(header);
  const asked = new Map(text.replace(/^#/, "").split("&").map((part) => part.split("=", 2)));
  const read = (key, allowed) => {
    const given = asked.get(LETTERS[key]);
    const found = allowed.find((value) => String(spoken(value)) === given);
    return found === undefined ? first[key] : found;
  };
  const upTo = (count) => [null, ...Array(count).keys()];
  const [view, links] = [read("view", viewsOf(header)), read("links", LINKS.filter(linkable(header)))];
  const [three, form] = [read("three", isLone(header) ? [false] : [true, false]), read("form", formsIn(header))];
  const kind = kindFor({ view, links, three, form, kind: read("kind", kindsIn(header)) });
  const piecesOn = (side) => upTo(header[side] ? header[side].pieces.length : 0);
  return {
    view,
    kind,
    layer: read("layer", upTo(header.model.layers[kind]).slice(1)),
    head: read("head", upTo(header.model.heads)),
    source: read("source", piecesOn("source")),
    target: read("target", piecesOn("target")),
    other: read("other", piecesOn(kind === "decoder" ? "target" : "source")),
    words: read("words", [true, false]),
    hide: read("hide", [true, false]),
    power: read("power", POWERS),
    links,
    three,
    below: read("below", upTo(header.model.layers.encoder || 1).slice(1)),
    heads: asked.has(LETTERS.heads) ? severalHeads(asked.get(LETTERS.heads), header) : first.heads,
    most: read("most", MOSTS),
    measure: read("measure", MEASURES),
    order: read("order", ORDERS),
    node: /^\d{1,6}$/.test(asked.get(LETTERS.node)) ? Number(asked.get(LETTERS.node)) : first.node,
    pruned: read("pruned", [true, false]),
    form,
    method: read("method", Object.keys(METHODS)),
    over: read("over", sidesIn(header)),
    stage: read("stage", STAGES),
    attempt: read("attempt", upTo(header.tries ? header.tries.length : 0)),
    pass: read("pass", upTo(mostIterations(header))),
    place: read("place", upTo(header.tries ? Math.max(...header.tries.map((one) => one.length)) : 0)),
    moment: read("moment", [null, ...(header.replay ? header.replay.steps : [])]),
    track: read("track", TRACKS),
    figure: read("figure", figureNames),
    sort: read("sort", SORTS),
    up: read("up", [true, false]),
    role: read("role", [null, ...Object.keys(ROLES_OF_HEADS)]),
  };
}

function mostIterations({ tries }) {
  return tries ? Math.max(...tries.map((one) => one.iterations.length)) : 0;
}

// Excludes sources of links that this page does not have.
function linkable(header) {
  const there = { best: header.reading, attribution: header.attribution && Object.keys(header.attribution).length };
  return (links) => !(links in there) || Boolean(there[links]);
}

// Several heads as one string, always in the same order, so that equal choices compare equal.
export function severalHeads(text, header) {
  const known = ["mean", ...[...Array(header.model.heads).keys()].map(String)];
  const given = text ? text.split(".") : [];
  return known.filter((name) => given.includes(name)).join(".");
}

// Links always belong to the cross-attention; with all three attentions, and in the layer lens, the layer is one of the
// decoder.
function kindFor({ view, links, three, form, kind }) {
  const linked = view === "align" || (view === "tables" && form === "alignment");
  const decoding = view === "lens" || (view === "lines" && three);
  return (linked && links === "head") || (decoding && kind === "encoder") ? "cross" : kind;
}

// Applies a change and makes it consistent: kinds may differ in their number of layers, and choosing a head replaces
// several.
export function changed(state, patch, header) {
  const next = { ...state, ...patch };
  if (next.view === "lines" && next.three && next.kind === "encoder") next.below = next.layer;
  next.kind = kindFor(next);
  if ("head" in patch && !("heads" in patch)) next.heads = null;
  next.layer = Math.min(next.layer, header.model.layers[next.kind] - 1);
  if (next.kind !== state.kind) next.other = null;
  return next;
}

export function isStep(before, after) {
  return STEPS.some((key) => before[key] !== after[key]);
}

// The selection's names for the query and the key of a kind of attention.
export function namesOf(kind) {
  return { query: kind === "encoder" ? "source" : "target", key: kind === "cross" ? "source" : "other" };
}
