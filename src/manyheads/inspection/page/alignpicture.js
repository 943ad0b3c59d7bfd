// View 1 as a picture file: the same words and links, drawn as SVG.

import { s } from "./dom.js";
import { visible } from "./letters.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";

const SERIF = "Palatino, 'DejaVu Serif', Georgia, serif";
const LINK = { fill: "none", stroke: INK.heat, "stroke-linecap": "round" };
const SIZE = 18;
const GAP = 22;
const HEIGHT = 260;

export function alignPicture({ header }, grid, links, from) {
  const above = placed(grid.columns);
  const below = placed(grid.rows);
  const room = Math.ceil(Math.max(above.width, below.width, 420)) + 64;
  const [start, end] = [(room - above.width) / 2, (room - below.width) / 2];
  const picture = sheet(room, HEIGHT, `${visible(header.model.name || "model")}: ${from}; links of 0.04 or more`);
  const middle = HEIGHT / 2 - 10;
  for (const { row, column, weight, best } of links) {
    const [x, u] = [start + above.middles[column], end + below.middles[row]];
    const d = `M${x.toFixed(1)},58C${x.toFixed(1)},${middle} ${u.toFixed(1)},${middle} ${u.toFixed(1)},192`;
    const opacity = (best ? 0.35 + 0.6 * weight : 0.12 + 0.4 * weight).toFixed(3);
    const width = (1 + 7 * weight).toFixed(2);
    const title = `${visible(grid.rows[row].text)} – ${visible(grid.columns[column].text)}: ${weight.toFixed(4)}`;
    picture.append(s("path", { ...LINK, d, "stroke-width": width, opacity }, s("title", {}, title)));
  }
  grid.columns.forEach((unit, n) => picture.append(word(unit, start + above.middles[n], 46)));
  grid.rows.forEach((unit, n) => picture.append(word(unit, end + below.middles[n], 212)));
  return picture;
}

function placed(units) {
  const widths = units.map((unit) => textWidth(visible(unit.text), `${SIZE}px serif`) * 1.08);
  let at = 0;
  const middles = widths.map((width) => {
    const middle = at + width / 2;
    at += width + GAP;
    return middle;
  });
  return { middles, width: at - GAP };
}

function word(unit, x, y) {
  const look = { "font-size": SIZE, "font-family": SERIF, "text-anchor": "middle" };
  return s("text", { x: x.toFixed(1), y, ...look, fill: unit.special ? INK.soft : INK.ink }, visible(unit.text));
}
