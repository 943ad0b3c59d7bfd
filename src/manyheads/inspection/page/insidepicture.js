// View 10 as a picture file: a row per key with its numbers, and the strips as rectangles.

import { coloursFor, hex } from "./colour.js";
import { s } from "./dom.js";
import { fullColour } from "./insidetable.js";
import { visible } from "./letters.js";
import { exact, signed } from "./numbers.js";
import { INK, sheet } from "./saving.js";

const [LINE, STRIP, BAR_LENGTH] = [24, 192, 110];
const STARTS = { key: 16, k: 150, products: 360, bar: 862 };
const ENDS = { dot: 630, score: 700, power: 780, weight: 850, length: 1040 };
const HEADINGS = {
  k: "k", products: "q × k", dot: "q·k", score: "score", power: "exp", weight: "weight", length: "|v|",
};

export function insidePicture({ header, state }, shown, { query, pieces, head }) {
  const { q, keys, output } = shown;
  const where = `${state.kind} layer ${state.layer}, head ${head}`;
  const caption = `${visible(header.model.name || "model")}: ${where}; query ‘${query}’`;
  const picture = sheet(1060, 90 + LINE * (keys.length + 2), caption);
  const most = fullColour(shown);
  const lines = [...keys.keys()].map((n) => 48 + LINE * (n + 1));
  const last = 48 + LINE * (keys.length + 1);
  picture.append(
    ...Object.entries(HEADINGS).map(([column, name]) => label(column, 24, name)),
    label("key", 48, "q"), ...cellsOf(q, most.q, STARTS.k, 48),
    ...keys.flatMap((key, n) => lineOf(key, visible(pieces[key.n].text), most, lines[n])),
    label("key", last, "Σ w·v"), ...cellsOf(output, most.output, STARTS.k, last));
  return picture;
}

function label(column, y, text) {
  const place = column in ENDS ? { x: ENDS[column], "text-anchor": "end" } : { x: STARTS[column] };
  return s("text", { ...place, y }, text);
}

function lineOf(key, text, most, y) {
  const power = key.masked ? "masked" : exact(key.power);
  const weight = exact(key.weight);
  const numbers = { dot: signed(key.dot), score: signed(key.score), power, weight, length: signed(key.length) };
  const width = (BAR_LENGTH * key.weight).toFixed(2);
  return [
    label("key", y, text),
    ...cellsOf(key.key, most.k, STARTS.k, y),
    ...cellsOf(key.products, most.products, STARTS.products, y),
    ...Object.entries(numbers).map(([column, shown]) => label(column, y, shown)),
    s("rect", { x: STARTS.bar, y: y - 9, width, height: 8, fill: INK.heat }),
  ];
}

function cellsOf(values, most, x, y) {
  const [colours, width] = [coloursFor("light"), STRIP / values.length];
  return [...values].map((value, n) => {
    const fill = hex(colours.signed(most ? value / most : 0));
    return s("rect", { x: (x + n * width).toFixed(2), y: y - 12, width: (width + 0.1).toFixed(2), height: 15, fill });
  });
}
