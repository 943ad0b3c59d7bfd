// View 8 as a picture file: a block per kind of attention, coloured by what each head does, with numbers.

import { coloursFor, hex } from "./colour.js";
import { s } from "./dom.js";
import { visible } from "./letters.js";
import { kindsIn, nameOfOutput } from "./models.js";
import { hundredths } from "./numbers.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";
import { sameHead } from "./switchblock.js";

const [CELL, HIGH, GAP_BETWEEN, ABOVE_GRID] = [46, 26, 44, 62];

export function switchesPicture(header, off, ranking) {
  const { model, target } = header;
  const kinds = kindsIn(header);
  const wide = CELL * model.heads;
  const width = 40 + kinds.length * (wide + GAP_BETWEEN);
  const name = visible(model.name || "model");
  const what = ranking ? `change in log-probability of the ${nameOfOutput(header)} without each head` : "heads";
  const high = ABOVE_GRID + HIGH * Math.max(...Object.values(model.layers)) + 50;
  const picture = sheet(Math.max(width, 520), high, `${name}: ${what}`);
  picture.append(s("text", { x: 16, y: 24, "font-size": 14 }, fitting(visible(target.text), width - 32)));
  kinds.forEach((kind, n) => {
    const place = `translate(${40 + n * (wide + GAP_BETWEEN)},${ABOVE_GRID})`;
    const cells = [...Array(model.layers[kind] * model.heads).keys()].flatMap((m) =>
      cellOf({ kind, layer: Math.floor(m / model.heads), head: m % model.heads }, off, ranking));
    const layers = [...Array(model.layers[kind]).keys()].map((layer) =>
      s("text", { x: -8, y: HIGH * layer + 17, "text-anchor": "end", "font-size": 11, fill: INK.soft }, String(layer)));
    picture.append(s("g", { transform: place }, s("text", { y: -10 }, kind), layers, cells));
  });
  return picture;
}

function fitting(text, room) {
  const letters = [...text];
  while (letters.length && textWidth(`${letters.join("")}…`, "14px sans-serif") * 1.1 > room) letters.pop();
  return letters.join("") + (letters.length < [...text].length ? "…" : "");
}

function cellOf(one, off, ranking) {
  const isOff = off.some((other) => sameHead(one, other));
  const colours = coloursFor("light");
  const tint = ranking && !isOff ? ranking.tint(one) : 0;
  const [x, y] = [CELL * one.head, HIGH * one.layer];
  const text = isOff ? "off" : ranking ? hundredths(ranking.change(one)) : "on";
  const place = { x: x + CELL / 2 - 1, y: y + 16.5, "text-anchor": "middle", "font-size": 11 };
  return [
    s("rect", { x, y, width: CELL - 2, height: HIGH - 2, rx: 3, fill: hex(colours.signed(tint)), stroke: INK.line }),
    s("text", { ...place, fill: colours.onSigned(tint) }, text),
  ];
}
