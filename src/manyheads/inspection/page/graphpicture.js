// A graph as a picture file.

import { coloursFor, hex } from "./colour.js";
import { s } from "./dom.js";
import { candidatesOf, vertexTold } from "./graphfacts.js";
import { arcPath, sceneOfGraph, WORD_HIGH, vertexWord } from "./graphscene.js";
import { direction, shortened, visible } from "./letters.js";
import { exact, hundredths } from "./numbers.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";

const [BELOW_WORDS, RED] = [92, "#c8553d"];

export function graphPicture({ header }) {
  const { graph } = header;
  const mirrored = direction(header.target.text) === "rtl";
  const scene = sceneOfGraph(graph, null, mirrored, (text) => textWidth(text, "15px sans-serif") * 1.1);
  const best = graph.lengths.find((one) => one.length === graph.path.length);
  const what = `${graph.vertices.length} vertices, the path through ${graph.path.length} of them in red: score ${hundredths(best.score)}`;
  const caption = `${visible(header.model.name || "model")}: ${what}`;
  const picture = sheet(Math.ceil(Math.max(scene.width + 32, textWidth(caption, "11px sans-serif") * 1.1 + 32)), Math.ceil(scene.top + WORD_HIGH + BELOW_WORDS + 40), caption);
  const colours = coloursFor("light");
  const place = s("g", { transform: "translate(16,12)" });
  for (const arc of scene.arcs) {
    const look = arc.taken ? { stroke: RED, opacity: 0.95 } : { stroke: INK.heat, opacity: (0.1 + 0.5 * arc.share).toFixed(3) };
    place.append(s("path", { d: arcPath(scene, arc), fill: "none", "stroke-width": (0.6 + 2.2 * arc.share + (arc.taken ? 0.8 : 0)).toFixed(2), ...look }));
  }
  graph.vertices.forEach((vertex, n) => place.append(drawnVertex(header, vertex, n, scene, colours)));
  picture.append(place);
  return picture;
}

function drawnVertex(header, vertex, n, { places, top }, colours) {
  const { x, width, large } = places[n];
  const title = s("title", {}, vertexTold(header, n));
  const middle = { "text-anchor": "middle" };
  const word = vertexWord(vertex);
  if (vertex.id === null) return s("text", { x: x.toFixed(1), y: top + 20, fill: INK.soft, "font-size": 12, ...middle }, word);
  const sure = Math.exp(vertex.log_probability);
  if (!large) {
    return s("g", { transform: `translate(${x.toFixed(1)},${top + 6})` },
      s("circle", { r: 4, fill: hex(colours.weight(0.25 + 0.6 * sure)) }, title),
      s("text", { transform: "translate(3,12) rotate(60)", "font-size": 9, fill: INK.soft }, shortened(word, 9)));
  }
  const others = candidatesOf(header, n).filter((one) => one.id !== vertex.id).slice(0, 3);
  const small = (text, line, fill) => s("text", { x: (width / 2).toFixed(1), y: 44 + 12 * line, "font-size": 9, fill, ...middle }, text);
  return s("g", { transform: `translate(${(x - width / 2).toFixed(1)},${top})` },
    s("rect", { width: width.toFixed(1), height: 28, rx: 6, fill: hex(colours.weight(0.9 * sure)), stroke: RED, "stroke-width": 1.4 }, title),
    s("text", { x: (width / 2).toFixed(1), y: 19, "font-size": 15, fill: colours.onWeight(0.9 * sure), ...middle }, word),
    small(exact(sure), 0, INK.ink),
    others.map((one, line) => small(`${shortened(visible(one.text), 10)} ${Math.exp(one.log_probability).toFixed(2)}`, line + 1, INK.soft)));
}
