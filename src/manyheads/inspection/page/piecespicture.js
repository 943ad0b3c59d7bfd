// View 15 as a picture file: the pieces of both sides as tiles, with ids and bytes.

import { s } from "./dom.js";
import { BLANK, shortened, visible } from "./letters.js";
import { nameOfSide, speltSides } from "./models.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";

const [TILE_HIGH, WIDEST_LINE] = [58, 900];

export function piecesPicture(header) {
  const names = speltSides(header);
  const sides = names.map((side) => placedTiles(header, side));
  const high = (side) => 30 + side.lines * (TILE_HIGH + 10);
  const caption = `${visible(header.model.name || "model")}: text to pieces; below each piece, its id and bytes`;
  const picture = sheet(WIDEST_LINE + 40, sides.reduce((sum, side) => sum + high(side), 0) + 50, caption);
  let y = 10;
  sides.forEach((side, n) => {
    picture.append(s("text", { x: 16, y: y + 16, fill: INK.soft }, nameOfSide(header, names[n]).toLowerCase()));
    picture.append(s("g", { transform: `translate(16,${y + 26})` }, side.tiles.map(drawnTile)));
    y += high(side);
  });
  return picture;
}

function placedTiles(header, side) {
  let [x, line] = [0, 0];
  const tiles = header[side].pieces.map((piece, n) => {
    const blank = piece.text.startsWith(" ") ? BLANK : "";
    const name = shortened(blank + visible(piece.text), 24);
    const bytes = shortened(header.spelling[side].bytes[n] || "–", 36);
    const wide = 16 + Math.max(textWidth(name, "14px sans-serif"), textWidth(bytes, "9px monospace") * 1.1, 26);
    if (x + wide > WIDEST_LINE && x > 0) [x, line] = [0, line + 1];
    const tile = { x, y: line * (TILE_HIGH + 10), wide, name, bytes, id: piece.id };
    x += wide + 6;
    return tile;
  });
  return { tiles, lines: line + 1 };
}

function drawnTile({ x, y, wide, name, bytes, id }) {
  return s("g", { transform: `translate(${x.toFixed(1)},${y})` },
    s("rect", { width: wide.toFixed(1), height: TILE_HIGH, rx: 5, fill: "none", stroke: INK.line }),
    s("text", { x: 8, y: 19, "font-size": 14 }, name),
    s("text", { x: 8, y: 36, "font-size": 11, fill: INK.soft }, `${id}`),
    s("text", { x: 8, y: 50, "font-size": 9, fill: INK.soft, "font-family": "monospace" }, bytes));
}
