// What is looked at: one selection for all views, and its address, so that a picture can be linked to.
//
// Places are those of pieces, whatever is shown: a word is selected when one of its pieces is. A key of the encoder or
// the decoder lies on the same side as its query; it is the `other`.

import { KINDS } from "./weights.js";

export const VIEWS = ["align", "matrix", "steps", "switches", "inside"];
const LINKS = ["best", "all", "head"];
export const POWERS = [1, 2, 3, 0]; // the root that is taken of a weight before it is a colour; 0 is its logarithm

const LETTERS = {
  view: "v", kind: "k", layer: "l", head: "h", source: "s", target: "t", other: "o",
  words: "w", hide: "x", power: "p", links: "a",
};
const STEPS = ["view", "kind", "layer", "head", "words", "hide", "links"]; // what the back button undoes

export function firstSelection(header) {
  const reading = header.reading;
  return {
    view: "align",
    kind: "cross",
    layer: reading ? reading.layer : header.model.layers.cross - 1,
    head: reading ? reading.head : null,
    source: null,
    target: null,
    other: null,
    words: true,
    hide: false,
    power: 1,
    links: reading ? "best" : "all",
  };
}

// Only what differs from the first selection is written: a bare page has a bare address.
export function toAddress(state, first) {
  const told = Object.keys(LETTERS).filter((key) => state[key] !== first[key]);
  return told.map((key) => `${LETTERS[key]}=${spoken(state[key])}`).join("&");
}

function spoken(value) {
  if (value === null) return "-";
  return typeof value === "boolean" ? Number(value) : value;
}

// An address comes from outside: what it asks for and is not there is ignored.
export function fromAddress(text, header) {
  const first = firstSelection(header);
  const asked = new Map(text.replace(/^#/, "").split("&").map((part) => part.split("=", 2)));
  const read = (key, allowed) => {
    const given = asked.get(LETTERS[key]);
    const found = allowed.find((value) => String(spoken(value)) === given);
    return found === undefined ? first[key] : found;
  };
  const upTo = (count) => [null, ...Array(count).keys()];
  const [view, links] = [read("view", VIEWS), read("links", header.reading ? LINKS : LINKS.slice(1))];
  const kind = view === "align" && links === "head" ? "cross" : read("kind", KINDS);
  const side = kind === "decoder" ? header.target : header.source;
  return {
    view,
    kind,
    layer: read("layer", upTo(header.model.layers[kind]).slice(1)),
    head: read("head", upTo(header.model.heads)),
    source: read("source", upTo(header.source.pieces.length)),
    target: read("target", upTo(header.target.pieces.length)),
    other: read("other", upTo(side.pieces.length)),
    words: read("words", [true, false]),
    hide: read("hide", [true, false]),
    power: read("power", POWERS),
    links,
  };
}

// A change, made to fit: links are always of the cross-attention, and the kinds need not have equally many layers.
export function changed(state, patch, header) {
  const next = { ...state, ...patch };
  if (next.view === "align" && next.links === "head") next.kind = "cross";
  next.layer = Math.min(next.layer, header.model.layers[next.kind] - 1);
  if (next.kind !== state.kind) next.other = null;
  return next;
}

export function isStep(before, after) {
  return STEPS.some((key) => before[key] !== after[key]);
}

// The query and the key of a kind of attention, in the selection's own names.
export function namesOf(kind) {
  return { query: kind === "encoder" ? "source" : "target", key: kind === "cross" ? "source" : "other" };
}
