// View 17 for a model that reads a graph: its vertices in order, each with its likeliest word, the links between them,
// and the path that was taken.

import { showBars } from "./bars.js";
import { css } from "./colour.js";
import { active, h, intoSight, replace, rove, s } from "./dom.js";
import { fact } from "./facts.js";
import { graphPicture } from "./graphpicture.js";
import { arcPath, sceneOfGraph, SMALL_VERTEX, WORD_HIGH, vertexWord } from "./graphscene.js";
import { bestLengths, candidatesOf, graphTable, linkNames, vertexTold } from "./graphfacts.js";
import { direction, spelt, visible } from "./letters.js";
import { clamp, exact, hundredths, percent } from "./numbers.js";
import { textWidth } from "./ruler.js";
import { makeTip } from "./tip.js";

const SIGHT = 60; // pixels kept free around the vertex that is scrolled to
const GRAPH_NOTE =
  "Each vertex shows its likeliest word, coloured by probability. Arcs are links to later vertices, stronger for likelier links; "
  + "links below 2 % are not drawn. Red marks the path, which is the translation.";

export function graphView(shared) {
  const { graph } = shared.header;
  const line = h("p", { class: "filling" });
  const arcs = s("svg", { class: "arcs", "aria-hidden": "true" });
  const board = h("div", { class: "graph-board", role: "group", "aria-label": "Vertices" });
  const scroll = h("div", { class: "tree graph-scroll" }, board);
  const told = h("dl", { class: "facts" });
  const [lead, bars, onward, links, byLength, lengths] = [h("p", { class: "lead" }), h("ol", { class: "bars" }),
    h("p", { class: "lead" }), h("ol", { class: "bars" }), h("p", { class: "lead" }), h("ol", { class: "bars by-length" })];
  const element = h("div", { class: "iterations" }, line, scroll, h("p", { class: "note" }, GRAPH_NOTE), told,
    h("div", { class: "two three" }, h("section", {}, lead, bars), h("section", {}, onward, links), h("section", {}, byLength, lengths)));
  const tip = makeTip(element);
  const last = graph.vertices.length - 1;

  const chosen = () => (shared.state.target !== null && shared.state.target <= last ? shared.state.target : null);
  const shownVertex = () => chosen() ?? graph.path[0] ?? 0;

  function update() {
    showPath();
    showBoard();
    showVertex();
    showByLength();
    shared.say(vertexTold(shared.header, shownVertex()));
  }

  function showPath() {
    line.dir = direction(shared.header.target.text);
    replace(line, graph.path.map((n, place) => h("bdi", { class: n === chosen() ? "other" : "" },
      graph.vertices[n].text.startsWith(" ") && place > 0 ? " " : "", ...spelt(graph.vertices[n].text))));
  }

  function showBoard() {
    const used = board.contains(active(element));
    const mirrored = direction(shared.header.target.text) === "rtl";
    const family = getComputedStyle(element).getPropertyValue("--serif");
    const scene = sceneOfGraph(graph, chosen(), mirrored, (text) => textWidth(text, `17px ${family}`));
    board.style.setProperty("width", `${scene.width}px`);
    board.style.setProperty("height", `${scene.top + WORD_HIGH + footOf(scene)}px`);
    arcs.setAttribute("viewBox", `0 0 ${scene.width} ${scene.top}`);
    arcs.setAttribute("width", scene.width);
    arcs.setAttribute("height", scene.top);
    replace(arcs, scene.arcs.map((arc) => {
      const kind = arc.taken ? "taken" : arc.chosen ? "own" : chosen() === null ? "" : "dim";
      const drawn = s("path", { d: arcPath(scene, arc), class: kind, "stroke-width": (0.6 + 2.6 * arc.share + (arc.taken ? 1 : 0)).toFixed(2) });
      drawn.style.setProperty("--share", arc.share.toFixed(3));
      return drawn;
    }));
    const buttons = graph.vertices.map((vertex, n) => vertexButton(vertex, n, scene));
    replace(board, arcs, buttons);
    rove(buttons, shownVertex());
    if (used) buttons[shownVertex()].focus();
    if (chosen() !== null) intoSight(scroll, buttons[chosen()], SIGHT);
  }

  // The height below the vertices that the slanted labels of small ones need.
  function footOf({ places }) {
    const names = graph.vertices.filter((_, n) => !places[n].large).map((vertex) => textWidth(vertexWord(vertex), "11px sans-serif"));
    return names.length ? Math.max(...names) * 0.9 + 4 : 0;
  }

  function vertexButton(vertex, n, { places, top }) {
    const { x, width, large } = places[n];
    const silent = vertex.id === null;
    const kind = silent ? "vertex silent" : large ? "vertex large" : "vertex small";
    const made = h("button", {
      type: "button", class: kind, "aria-label": vertexTold(shared.header, n), "aria-pressed": String(n === chosen()), "data-vertex": n,
      click: () => shared.choose({ target: n === chosen() ? null : n }), pointerleave: tip.hide,
      pointermove: (event) => tip.show(event, h("b", {}, silent ? "" : exact(Math.exp(vertex.log_probability))), h("bdi", {}, `${n}: ‘${visible(vertex.text)}’`),
        h("small", {}, silent ? "no word" : candidatesOf(shared.header, n).slice(1, 5).map((one) => `${visible(one.text)} ${exact(Math.exp(one.log_probability))}`).join(", "))),
    }, h("i", { class: "dot" }), h("bdi", { class: "label" }, spelt(vertexWord(vertex))));
    const sure = silent ? 0 : Math.exp(vertex.log_probability);
    made.style.setProperty("left", `${(x - width / 2).toFixed(1)}px`);
    made.style.setProperty("top", `${top}px`);
    made.style.setProperty("width", `${(large ? width : SMALL_VERTEX).toFixed(1)}px`);
    made.style.setProperty("--tint", css(shared.colours.weight(large ? 0.9 * sure : 0.25 + 0.6 * sure)));
    made.style.setProperty("--on", shared.colours.onWeight(0.9 * sure));
    return made;
  }

  function showVertex() {
    const n = shownVertex();
    const vertex = graph.vertices[n];
    const all = candidatesOf(shared.header, n);
    const best = graph.lengths.find((one) => one.length === graph.path.length);
    replace(told,
      fact("vertices", `${last + 1}`), fact("path", graph.path.join(" → ")),
      fact("log-probability", hundredths(best.log_probability)), fact("score", hundredths(best.score)));
    replace(lead, h("bdi", {}, `Vertex ${n}: ‘${visible(vertex.text)}’`),
      h("small", {}, vertex.id === null ? "no word: paths start and end here" : graph.path.includes(n) ? "on the path; its candidates" : "not on the path; its candidates"));
    if (all.length) showBars(bars, all, all.map((one, place) => [place, Math.exp(one.log_probability)]), true, null);
    else replace(bars);
    replace(onward, "Links to", h("small", {}, vertex.links.length ? `these links hold ${percent(vertex.covered)} of the probability` : "none: this is the last vertex"));
    const names = linkNames(graph, n);
    showBars(links, names, names.map((one, place) => [place, one.share]), false, null);
  }

  function showByLength() {
    const all = bestLengths(graph);
    const [most, least] = [Math.max(...all.map((one) => one.score)), Math.min(...all.map((one) => one.score))];
    replace(byLength, "Best path of each length", h("small", {}, "Score: log-probability divided by the length penalty"));
    replace(lengths, all.map((one) => {
      const bar = h("span", { class: "bar" });
      bar.style.setProperty("--share", most === least ? 1 : 0.05 + 0.95 * ((one.score - least) / (most - least)));
      const taken = one.length === graph.path.length;
      return h("li", { class: taken ? "chosen" : "" }, h("span", { class: "label" }, `${taken ? "● " : ""}${one.length === 1 ? "1 word" : `${one.length} words`}`), bar,
        h("span", { class: "number" }, hundredths(one.score)));
    }), graph.lengths.length > all.length ? h("li", { class: "rest" }, `${graph.lengths.length - all.length} more`) : null);
  }

  // Left and right move through all vertices, up and down along the path.
  board.addEventListener("keydown", (event) => {
    const mirrored = line.dir === "rtl" ? -1 : 1;
    const along = { ArrowLeft: -mirrored, ArrowRight: mirrored }[event.key];
    const onPath = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!along && !onPath) return;
    event.preventDefault();
    const way = [0, ...graph.path, last];
    const at = shownVertex();
    const next = onPath > 0 ? way.find((n) => n > at) : way.filter((n) => n < at).pop();
    shared.choose({ target: along ? clamp(at + along, 0, last) : next ?? at });
  });

  return {
    element,
    update,
    resize: () => {},
    repaint: update,
    table: () => graphTable(shared.header),
    picture: () => graphPicture(shared),
  };
}
