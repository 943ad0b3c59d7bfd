// The layout of a graph: positions of the vertices and the arcs between them. Vertices on the path have room for their
// words; the others are small and close together, so that long graphs stay readable.

import { shortened, visible } from "./letters.js";

export const [WORD_HIGH, VERTEX_GAP, SMALL_VERTEX] = [34, 8, 14]; // pixels
const [HIGHEST, LOWEST] = [210, 30]; // of an arc
const FAINTEST_LINK = 0.02; // weaker links are not drawn, except those of the path and of the chosen vertex

export function vertexWord(vertex) {
  return shortened(visible(vertex.text), 16);
}

// {places: [{x, width, large}], width, top, arcs}. `wordWidth` measures a text; `chosen` is a vertex or null.
export function sceneOfGraph(graph, chosen, mirrored, wordWidth) {
  const last = graph.vertices.length - 1;
  const way = new Set([0, ...graph.path, last]);
  let end = 0;
  const places = graph.vertices.map((vertex, n) => {
    const large = way.has(n);
    const width = large ? wordWidth(vertexWord(vertex)) + 22 : SMALL_VERTEX;
    const x = end + VERTEX_GAP / 2 + width / 2;
    end += width + VERTEX_GAP;
    return { x, width, large };
  });
  if (mirrored) places.forEach((one) => (one.x = end - one.x));
  const rise = (a, b) => Math.min(HIGHEST, LOWEST + 0.3 * Math.abs(places[a].x - places[b].x));
  const arcs = arcsOf(graph, chosen).map((arc) => ({ ...arc, rise: rise(arc.from, arc.to) }));
  const top = Math.max(LOWEST, ...arcs.map((arc) => 0.75 * arc.rise)) + 8;
  return { places, width: end, top, arcs };
}

// Strong links, links of the path, and all kept links of the chosen vertex; the most important ones are drawn on top.
function arcsOf({ vertices, path }, chosen) {
  const onward = new Map([0, ...path].map((from, n) => [from, n < path.length ? path[n] : vertices.length - 1]));
  const all = vertices.flatMap(({ links }, from) => links.map(({ to, log_probability: log }) =>
    ({ from, to, share: Math.exp(log), taken: onward.get(from) === to, chosen: from === chosen })));
  const shown = all.filter((arc) => arc.taken || arc.chosen || arc.share >= FAINTEST_LINK);
  const weight = (arc) => arc.share + 2 * arc.taken + 4 * arc.chosen;
  return shown.sort((a, b) => weight(a) - weight(b));
}

export function arcPath({ places, top }, { from, to, rise }) {
  const [a, b] = [places[from].x, places[to].x];
  return `M${a.toFixed(1)},${top}C${a.toFixed(1)},${(top - rise).toFixed(1)} ${b.toFixed(1)},${(top - rise).toFixed(1)} ${b.toFixed(1)},${top}`;
}
