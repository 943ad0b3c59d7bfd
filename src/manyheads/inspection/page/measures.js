// What kind of head it is, in numbers that Python has computed: header.heads[kind][layer][measure][head].

import { kindsIn } from "./models.js";

// Each in one sentence. `whole`: it is a share of 1, else it is measured against the largest.
const OWN = "A row’s own, in the decoder, is the piece just read; across two texts there is none.";
const MEANINGS = {
  entropy: { whole: false, text: "How spread the look of a head is, in nats: 0 is one place alone." },
  focus: { whole: true, text: "The largest weight of a row, on average: 1 is one place alone." },
  distance: {
    whole: false,
    text: "How far away lies what is looked at, in pieces; across, from where an even pace would be.",
  },
  ends: { whole: true, text: "Weight on begin and end, where heads look that have nothing to say." },
  previous: { whole: true, text: `Weight on the piece before a row’s own. ${OWN}` },
  same: { whole: true, text: `Weight on a row’s own piece. ${OWN}` },
  next: { whole: true, text: `Weight on the piece after a row’s own. ${OWN}` },
};
export const MEASURES = Object.keys(MEANINGS);
export const ORDERS = ["layers", "most", "least"];

export function meaningOf(measure) {
  return MEANINGS[measure].text;
}

// Every head of the model: {kind, layer, head, off, values: {measure: number}}. Across, some numbers are missing.
export function allHeads(header) {
  const off = new Set(header.off.map((place) => place.join(" ")));
  const of = (kind, layer, head) => ({
    kind, layer, head,
    off: off.has(`${kind} ${layer} ${head}`),
    values: Object.fromEntries(Object.entries(header.heads[kind][layer]).map(([name, list]) => [name, list[head]])),
  });
  const layers = (kind) => [...Array(header.model.layers[kind]).keys()];
  const heads = [...Array(header.model.heads).keys()];
  return kindsIn(header).flatMap((kind) => layers(kind).flatMap((layer) => heads.map((head) => of(kind, layer, head))));
}

// Where each stands between 0 and 1: of the whole, or of the largest of all heads.
export function shareOf(heads, measure) {
  const most = Math.max(...heads.map((head) => head.values[measure] || 0), 1e-9);
  return (head) => (head.values[measure] || 0) / (MEANINGS[measure].whole ? 1 : most);
}

// Those that have no such number come last; equal ones stay as they are in the model.
export function inOrder(heads, measure, order) {
  if (order === "layers") return heads;
  const sign = order === "most" ? -1 : 1;
  const value = (head) => (measure in head.values ? sign * head.values[measure] : Infinity);
  return [...heads].sort((a, b) => (value(a) === value(b) ? 0 : value(a) - value(b)));
}
