// Measures that characterise heads, computed in Python: header.heads[kind][layer][measure][head].

import { kindsIn } from "./models.js";

// `whole`: the measure is a share of 1; others are scaled by the largest of all heads.
const OWN = "In the decoder, a row’s own piece is the one it has just read; cross-attention has no such measure.";
const MEANINGS = {
  entropy: { whole: false, text: "How spread out the attention of a head is, in nats: 0 means a single piece." },
  focus: { whole: true, text: "Largest weight of a row, on average: 1 means a single piece." },
  distance: {
    whole: false,
    text: "Mean distance to the pieces attended to, in pieces; in cross-attention, from an evenly paced alignment.",
  },
  ends: { whole: true, text: "Weight on begin and end, where heads attend that have nothing to contribute." },
  previous: { whole: true, text: `Weight on the piece before the row’s own. ${OWN}` },
  same: { whole: true, text: `Weight on the row’s own piece. ${OWN}` },
  next: { whole: true, text: `Weight on the piece after the row’s own. ${OWN}` },
};
export const MEASURES = Object.keys(MEANINGS);
export const ORDERS = ["layers", "most", "least"];

export function meaningOf(measure) {
  return MEANINGS[measure].text;
}

// Every head of the model: {kind, layer, head, off, values: {measure: number}}. Cross-attention lacks some measures.
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

// The measure of a head on a scale from 0 to 1: as a share of 1, or relative to the largest of all heads.
export function shareOf(heads, measure) {
  const most = Math.max(...heads.map((head) => head.values[measure] || 0), 1e-9);
  return (head) => (head.values[measure] || 0) / (MEANINGS[measure].whole ? 1 : most);
}

// Heads without the measure come last; ties keep the order of the model.
export function inOrder(heads, measure, order) {
  if (order === "layers") return heads;
  const sign = order === "most" ? -1 : 1;
  const value = (head) => (measure in head.values ? sign * head.values[measure] : Infinity);
  return [...heads].sort((a, b) => (value(a) === value(b) ? 0 : value(a) - value(b)));
}
