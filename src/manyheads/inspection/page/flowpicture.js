// View 11 as a picture file: the current stage, row by row, without the figure of the model.

import { coloursFor, hex } from "./colour.js";
import { s } from "./dom.js";
import { visible } from "./letters.js";
import { signed } from "./numbers.js";
import { INK, sheet } from "./saving.js";
import { greatest } from "./strips.js";

const [LEFT_EDGE, CELL_WIDE, CELL_HIGH, SHEET_WIDE] = [190, 46, 24, 1110];
const HEIGHTS = { strip: 34, sign: 26, pieces: 40 };

export function flowPicture({ header }, { stage, words, rows, piece }, place) {
  const heights = rows.map((row) => (row.type === "bars" ? 22 * row.items.length + 8 : HEIGHTS[row.type]));
  const starts = heights.map((_, n) => 110 + heights.slice(0, n).reduce((a, b) => a + b, 0));
  const end = 110 + heights.reduce((a, b) => a + b, 0);
  const caption = `${visible(header.model.name || "model")}: ${place}, for ${piece}`;
  const picture = sheet(SHEET_WIDE, end + 44, caption);
  const [name, sentence, formula, shape] = words;
  picture.append(
    s("text", { x: 16, y: 32, "font-size": 19 }, name),
    s("text", { x: 16, y: 56 }, sentence),
    s("text", { x: 16, y: 80, fill: INK.soft }, [formula, shape].filter(Boolean).join("      ")));
  rows.forEach((row, n) => picture.append(...DRAWN[row.type](row, starts[n], rows)));
  return picture;
}

const DRAWN = {
  sign: (row, y) => [s("text", { x: LEFT_EDGE, y: y + 17, fill: INK.soft }, row.text)],
  pieces: (row, y) => {
    let x = 16;
    return row.items.map((one) => {
      const text = `${visible(one.text)} ${one.id}`;
      const made = s("text", { x, y: y + 24, "font-weight": one.chosen ? 700 : 400 }, text);
      x += 8 * text.length + 14;
      return made;
    });
  },
  bars: (row, y) => row.items.flatMap((one, n) => [
    s("text", { x: LEFT_EDGE - 10, y: y + 22 * n + 15, "text-anchor": "end", "font-weight": one.chosen ? 700 : 400 }, visible(one.text)),
    s("rect", {
      x: LEFT_EDGE, y: y + 22 * n + 6, width: (500 * Math.abs(one.share)).toFixed(2), height: 10,
      fill: one.share < 0 ? "#c8553d" : INK.heat,
    }),
    s("text", { x: LEFT_EDGE + 512, y: y + 22 * n + 15 }, one.told),
  ]),
  strip: (row, y, rows) => {
    const colours = coloursFor("light");
    const alike = rows.filter((other) => other.type === "strip" && other.group === row.group);
    const most = greatest(...alike.map((other) => other.values));
    const share = (value) => (most ? value / most : 0);
    const name = row.about ? `${row.label}  ${visible(row.about)}` : row.label;
    return [
      s("text", { x: LEFT_EDGE - 10, y: y + 17, "text-anchor": "end" }, name),
      ...row.values.flatMap((value, n) => [
        s("rect", { x: LEFT_EDGE + n * CELL_WIDE, y, width: CELL_WIDE - 1, height: CELL_HIGH, fill: hex(colours.signed(share(value))) }),
        s("text", {
          x: LEFT_EDGE + (n + 0.5) * CELL_WIDE, y: y + 16, "text-anchor": "middle", "font-size": 11, fill: colours.onSigned(share(value)),
        }, value.toFixed(2).replace("-", "−")),
      ]),
      s("text", { x: LEFT_EDGE + row.values.length * CELL_WIDE + 8, y: y + 16, "font-size": 11, fill: INK.soft }, `length ${signed(row.norm)}`),
    ];
  },
};
