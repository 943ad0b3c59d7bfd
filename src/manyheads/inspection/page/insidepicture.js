// The picture of view 10 for a file: a row for each key, its numbers, and the strips as rectangles.

import { coloursFor, hex } from "./colour.js";
import { s } from "./dom.js";
import { visible } from "./letters.js";
import { exact, signed } from "./numbers.js";
import { INK, sheet } from "./saving.js";
import { greatest } from "./strips.js";

const LINE = 24;
const STRIP = 192;
const COLUMNS = { key: 16, k: 150, products: 360, dot: 630, score: 700, power: 780, weight: 850, bar: 862, length: 1040 };

export function insidePicture({ header, state }, { q, keys, output }, { query, keys: pieces, head }) {
  const caption = `${visible(header.model.name || "model")}: ${state.kind} layer ${state.layer}, head ${head}; query ‘${query}’`;
  const picture = sheet(1060, 90 + LINE * (keys.length + 2), caption);
  const most = { q: greatest(q), k: greatest(...keys.map((key) => key.key)), products: greatest(...keys.map((key) => key.products)), v: greatest(output) };
  const put = (x, y, text, anchor = "end") => picture.append(s("text", { x, y, "text-anchor": anchor }, text));
  const names = { k: "k", products: "q × k", dot: "q·k", score: "score", power: "exp", weight: "weight", length: "|v|" };
  for (const [column, name] of Object.entries(names)) put(COLUMNS[column], 24, name, column === "k" || column === "products" ? "start" : "end");
  put(COLUMNS.key, 48, "q", "start");
  picture.append(...cellsOf(q, most.q, COLUMNS.k, 36));
  keys.forEach((key, n) => {
    const y = 48 + LINE * (n + 1);
    put(COLUMNS.key, y, visible(pieces[key.n].text), "start");
    picture.append(...cellsOf(key.key, most.k, COLUMNS.k, y - 12), ...cellsOf(key.products, most.products, COLUMNS.products, y - 12));
    const numbers = { dot: signed(key.dot), score: signed(key.score), power: key.masked ? "masked" : exact(key.power), weight: exact(key.weight), length: signed(key.length) };
    for (const [column, text] of Object.entries(numbers)) put(COLUMNS[column], y, text);
    picture.append(s("rect", { x: COLUMNS.bar, y: y - 9, width: (110 * key.weight).toFixed(2), height: 8, fill: INK.heat }));
  });
  const last = 48 + LINE * (keys.length + 1);
  put(COLUMNS.key, last, "Σ w·v", "start");
  picture.append(...cellsOf(output, most.v, COLUMNS.k, last - 12));
  return picture;
}

function cellsOf(values, most, x, y) {
  const [colours, width] = [coloursFor("light"), STRIP / values.length];
  return [...values].map((value, n) =>
    s("rect", { x: (x + n * width).toFixed(2), y, width: (width + 0.1).toFixed(2), height: 15, fill: hex(colours.signed(most ? value / most : 0)) }));
}
