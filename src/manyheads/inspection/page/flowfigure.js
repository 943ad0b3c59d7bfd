// The model as a figure: one tower or two, as in the paper, drawn from the bottom up with all layers. A box is darker
// the more it changes the vector of the chosen word: length of what it adds, relative to the vector's length.

import { css } from "./colour.js";
import { s } from "./dom.js";
import { signed } from "./numbers.js";

const [BOX_WIDE, BOX_HIGH, ROW_OF_BOXES, BETWEEN_LAYERS] = [126, 17, 20, 5];
const LEFTS = [16, 170]; // left edges of the first and the second tower
const LABELS = {
  pieces: "pieces", vectors: "vectors", segment: "+ segment", position: "+ position", settled: "norm", last: "norm", logits: "logits", choice: "softmax", word: "word",
  attention: "attention", cross: "cross-attention", feedforward: "feed-forward",
};
const FIGURE_WIDTHS = [164, 318]; // with one tower, with two
const ROOM_FOR_WORDS = 22; // pixels below and above the towers, for the input and output words

// [{box, first (its first stage), tower, layer, label, change, about}] of both towers, each from the bottom up.
export function boxesOf(stages, changeOf) {
  const seen = new Map();
  for (const stage of stages) if (!seen.has(stage.box)) seen.set(stage.box, stage);
  return [...seen.values()].map((stage) => {
    const found = stage.sublayer ? changeOf(stage) : null;
    const tower = stage.kind === "encoder" ? "encoder" : "decoder";
    return { box: stage.box, first: stage, tower, layer: stage.layer, label: LABELS[stage.sublayer || stage.name], ...found };
  });
}

// words: {encoder, decoder, out}: the input words below and the output word above. choose(stage) is called on a click.
export function figureOf(boxes, words, current, colours, ink, choose) {
  const names = ["encoder", "decoder"].filter((tower) => boxes.some((box) => box.tower === tower));
  const towers = names.map((tower, n) => stacked(boxes.filter((box) => box.tower === tower), LEFTS[n]));
  const wide = FIGURE_WIDTHS[towers.length - 1];
  const height = Math.max(...towers.map((tower) => tower.height)) + 2 * ROOM_FOR_WORDS;
  const all = towers.flatMap((tower) => tower.boxes);
  const picture = s("svg", { viewBox: `0 0 ${wide} ${height}`, width: wide, height, class: "towers", "aria-hidden": "true" });
  const up = (y) => height - ROOM_FOR_WORDS - y;
  picture.append(...towers.flatMap((tower) => tower.frames.map((frame) => frameOf(frame, up, ink))));
  picture.append(...readings(all, up, current, ink));
  picture.append(...all.map((box) => boxOf(box, up, box.box === current, colours, ink, choose)));
  const name = (text, n, y) => s("text", {
    x: LEFTS[n] + BOX_WIDE / 2, y, "text-anchor": "middle", "font-size": 12, "font-weight": 600, fill: ink.mark,
  }, text.length > 16 ? `${[...text].slice(0, 15).join("")}…` : text);
  picture.append(...names.map((tower, n) => name(words[tower], n, height - 6)));
  if (words.out !== null) picture.append(name(words.out, names.length - 1, up(towers[names.length - 1].height)));
  return { picture, boxAt: (name) => up(all.find((box) => box.box === name).y) };
}

// Stacks boxes from the bottom up, with a frame around each layer.
function stacked(boxes, x) {
  let [y, layer] = [0, null];
  const frames = [];
  const found = boxes.map((box) => {
    if (box.layer !== layer) y += BETWEEN_LAYERS;
    if (box.layer !== null && box.layer !== layer) frames.push({ x, y, layer: box.layer, count: 0 });
    if (box.layer !== null) frames[frames.length - 1].count += 1;
    layer = box.layer;
    y += ROW_OF_BOXES;
    return { ...box, x, y };
  });
  return { boxes: found, frames, height: y + BETWEEN_LAYERS };
}

function frameOf({ x, y, layer, count }, up, ink) {
  const high = count * ROW_OF_BOXES + 2;
  const top = up(y + high);
  const number = x === LEFTS[0] ? { x: x - 8, "text-anchor": "end" } : { x: x + BOX_WIDE + 8 };
  return s("g", {},
    s("rect", { x: x - 4, y: top, width: BOX_WIDE + 8, height: high, rx: 4, fill: "none", stroke: ink.line }),
    s("text", { ...number, y: top + high / 2, dy: "0.35em", "font-size": 9, fill: ink.soft }, String(layer)));
}

function boxOf({ first, label, x, y, change, about }, up, current, colours, ink, choose) {
  const fill = change === undefined ? ink.grid : css(colours.weight(Math.min(1, change)));
  const text = change === undefined ? ink.ink : colours.onWeight(Math.min(1, change));
  const rect = { x, y: up(y), width: BOX_WIDE, height: BOX_HIGH, rx: 3, fill, stroke: current ? ink.mark : ink.line, "stroke-width": current ? 2 : 1 };
  return s("g", { class: "box", click: () => choose && choose(first) },
    about ? s("title", {}, about) : s("title", {}, label),
    s("rect", rect),
    s("text", { x: x + BOX_WIDE / 2, y: up(y) + BOX_HIGH / 2, dy: "0.35em", "text-anchor": "middle", "font-size": 10.5, fill: text }, label));
}

// Lines from the encoder's output to every cross-attention.
function readings(all, up, current, ink) {
  const top = all.filter((box) => box.tower === "encoder").pop();
  if (!top) return [];
  const [from, middle] = [{ x: top.x + BOX_WIDE, y: up(top.y) + BOX_HIGH / 2 }, LEFTS[1] - 22];
  return all.filter((box) => box.first.kind === "cross").map((box) => {
    const [y, lit] = [up(box.y) + BOX_HIGH / 2, box.box === current];
    const path = `M ${from.x} ${from.y} H ${middle} V ${y} H ${box.x}`;
    return s("path", { d: path, fill: "none", stroke: lit ? ink.mark : ink.faint, "stroke-width": lit ? 1.6 : 0.8 });
  });
}

// How much a sublayer changes a vector: {change, about}.
export function changeBy(stage, lengths) {
  const change = lengths.x ? lengths.y / lengths.x : 0;
  const about = `${stage.kind} layer ${stage.layer}, ${LABELS[stage.sublayer]}: adds ${signed(lengths.y)} to a vector of length ${signed(lengths.x)}`;
  return { change, about };
}
