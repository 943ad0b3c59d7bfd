// View 2 as a picture file: the same columns and lines.

import { s } from "./dom.js";
import { inkFor } from "./hues.js";
import { visible } from "./letters.js";
import { headsOn } from "./linesscene.js";
import { opacityOf, shapeOf } from "./linesshape.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";

const TEXT_SIZE = 15;
const LINE_HEIGHT = 26;
const BESIDE = 150; // pixels for arcs
const BETWEEN = 260;
const TOP = 56;

export function linesPicture({ header, state }, scene, lines, captions, counted) {
  const widths = scene.columns.map(({ units }) => Math.max(...units.map(widthOf)) + 16);
  const outside = state.three ? BESIDE : 20;
  const [left, right] = [outside + widths[0], outside + widths[0] + BETWEEN];
  const tall = LINE_HEIGHT * Math.max(...scene.columns.map(({ units }) => units.length));
  const name = visible(header.model.name || "model");
  const caption = `${name}: ${counted}${hiddenNote(state)}`;
  const width = Math.max(right + widths[1] + outside, textWidth(caption, "11px sans-serif") + 40);
  const picture = sheet(Math.ceil(width), TOP + tall + 74, caption);
  const start = (column) => TOP + (tall - LINE_HEIGHT * scene.columns[column].units.length) / 2;
  const height = ({ column, n }) => start(column) + LINE_HEIGHT * (n + 0.5);
  const edges = [[outside, left], [right + widths[1], right]]; // of each column: outer edge, inner edge
  const place = (word, outer) => [edges[word.column][outer ? 0 : 1], height(word)];
  for (const one of [...lines].reverse()) {
    const arc = one.from.column === one.to.column;
    const room = arc ? (one.from.column === 0 ? -1 : 1) * BESIDE * 0.94 : 0;
    const d = shapeOf(place(one.from, arc), place(one.to, arc), one.weight, room, tall);
    const look = { d, opacity: opacityOf(one.weight).toFixed(3), ...inkFor(one.set.head, "light") };
    picture.append(s("path", look, s("title", {}, titleFor(scene, one))));
  }
  scene.columns.forEach(({ units }, column) => units.forEach((unit, n) => {
    const at = column ? { x: right + 8, "text-anchor": "start" } : { x: left - 8, "text-anchor": "end" };
    const look = { y: height({ column, n }) + 5, "font-size": TEXT_SIZE, fill: unit.special ? INK.soft : INK.ink };
    picture.append(s("text", { ...at, ...look }, visible(unit.text)));
  }));
  const middles = [outside + widths[0] / 2, (left + right) / 2, right + widths[1] / 2];
  const heading = (text, n) => s("text", { x: middles[n], y: 26, "text-anchor": "middle", fill: INK.soft }, text);
  picture.append(...captions.map(heading), ...legendOf({ header, state }, TOP + tall + 36));
  return picture;
}

function widthOf(unit) {
  return textWidth(visible(unit.text), `${TEXT_SIZE}px sans-serif`) * 1.06;
}

export function hiddenNote(state) {
  return state.hide ? "; begin and end hidden, rows rescaled to add up to 1" : "";
}

function titleFor(scene, { from, to, set, weight }) {
  const text = ({ column, n }) => visible(scene.columns[column].units[n].text);
  const head = set.head === null ? "mean" : `head ${set.head}`;
  return `${text(from)} → ${text(to)}: ${weight.toFixed(4)} (${set.kind} ${set.layer}, ${head})`;
}

function legendOf(shared, y) {
  return headsOn(shared).flatMap((head, n) => {
    const x = 16 + 62 * n;
    const name = head === null ? "mean" : `head ${head}`;
    const text = s("text", { x: x + 15, y: y + 9, "font-size": 11, fill: INK.soft }, name);
    return [s("rect", { x, y, width: 10, height: 10, ...inkFor(head, "light") }), text];
  });
}
