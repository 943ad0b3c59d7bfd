// Texts and tables about the vertices of a graph.

import { visible } from "./letters.js";
import { exact, percent } from "./numbers.js";

const MOST_LENGTHS = 10; // path lengths listed, around that of the path taken

// The candidates of a vertex, likeliest first. The first and the last vertex have no word.
export function candidatesOf({ graph, steps }, n) {
  return graph.vertices[n].id === null ? [] : steps[n].candidates.slice(0, 6);
}

// The links of a vertex: {text, share, to}, where `text` names the vertex at the other end.
export function linkNames({ vertices }, n) {
  return vertices[n].links.map(({ to, log_probability: log }) => ({ text: `${to}: ${visible(vertices[to].text)}`, share: Math.exp(log), to }));
}

export function vertexTold({ graph }, n) {
  const vertex = graph.vertices[n];
  const place = graph.path.indexOf(n);
  const said = vertex.id === null ? "no word" : `‘${visible(vertex.text)}’ ${exact(Math.exp(vertex.log_probability))}`;
  const onPath = place >= 0 ? `, word ${place + 1} of the path` : vertex.id === null ? "" : ", not on the path";
  const [best] = linkNames(graph, n);
  return `vertex ${n} of ${graph.vertices.length}: ${said}${onPath}${best ? `; strongest link to ${best.text} ${exact(best.share)}` : ""}`;
}

// The path lengths around that of the path taken, in order.
export function bestLengths({ lengths, path }) {
  const at = lengths.findIndex((one) => one.length === path.length);
  const from = Math.max(0, Math.min(at - MOST_LENGTHS / 2, lengths.length - MOST_LENGTHS));
  return lengths.slice(from, from + MOST_LENGTHS);
}

export function graphTable({ graph }) {
  const names = ["vertex", "word", "probability", "word_of_path", "to", "to_word", "link_probability", "covered"];
  const rows = graph.vertices.flatMap((vertex, n) => {
    const place = graph.path.indexOf(n);
    const own = [n, vertex.text, vertex.log_probability === null ? "" : Math.exp(vertex.log_probability).toFixed(6), place < 0 ? "" : place + 1];
    if (!vertex.links.length) return [[...own, "", "", "", ""]];
    return vertex.links.map(({ to, log_probability: log }) =>
      [...own, to, graph.vertices[to].text, Math.exp(log).toFixed(6), vertex.covered.toFixed(6)]);
  });
  return [names, ...rows];
}

export function graphForm({ graph, steps }) {
  const rows = graph.vertices.map((vertex, n) => {
    const place = graph.path.indexOf(n);
    const others = candidatesOf({ graph, steps }, n).filter((one) => one.id !== vertex.id).slice(0, 3);
    const links = linkNames(graph, n).slice(0, 3);
    return [
      `${n}`, visible(vertex.text), vertex.log_probability === null ? "" : exact(Math.exp(vertex.log_probability)), place < 0 ? "" : `${place + 1}`,
      others.map((one) => `${visible(one.text)} ${exact(Math.exp(one.log_probability))}`).join(", "),
      links.map((one) => `${one.text} ${exact(one.share)}`).join(", "), links.length ? percent(vertex.covered) : "",
    ];
  });
  const columns = ["vertex", "word", "probability", "word of the path", "other candidates", "links to", "probability of the kept links"];
  return { caption: `A graph of ${graph.vertices.length} vertices, and the path through ${graph.path.length} of them`, columns, rows };
}
