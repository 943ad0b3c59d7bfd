// View 7 as a picture file: layers from the last at the top, steps from left to right.

import { coloursFor, hex } from "./colour.js";
import { s } from "./dom.js";
import { shortened, visible } from "./letters.js";
import { exact } from "./numbers.js";
import { firstRow } from "./rows.js";
import { INK, sheet } from "./saving.js";

const [LENS_WIDE, LENS_HIGH, LENS_LEFT] = [76, 30, 70];

export function lensPicture(header) {
  const { model, lens, target } = header;
  const [layers, steps] = [lens.layers.length, lens.layers[0].length];
  const norm = lens.norm ? "last norm and output table" : "output table";
  const what = `what each layer would write (${norm} applied); colour and number: probability and rank of the piece written`;
  const caption = `${visible(model.name || "model")}: ${what}`;
  const picture = sheet(Math.max(760, LENS_LEFT + LENS_WIDE * steps + 24), LENS_HIGH * (layers + 1) + 70, caption);
  const colours = coloursFor("light");
  target.pieces.slice(firstRow(header)).forEach((piece, step) => picture.append(
    s("text", { x: LENS_LEFT + LENS_WIDE * step + 5, y: 32, "font-weight": 600 }, shortened(visible(piece.text), 8))));
  lens.layers.forEach((row, layer) => {
    const y = 44 + LENS_HIGH * (layers - 1 - layer);
    picture.append(s("text", { x: 16, y: y + 19, fill: INK.soft, "font-size": 12 }, `layer ${layer}`));
    row.forEach((one, step) => picture.append(lensCell(one, LENS_LEFT + LENS_WIDE * step, y, colours)));
  });
  return picture;
}

function lensCell(one, x, y, colours) {
  const share = Math.exp(one.log_probability);
  const [first] = one.candidates;
  const fill = colours.onWeight(share);
  const says = `predicts ${visible(first.text)} ${exact(Math.exp(first.log_probability))}`;
  const title = `${says}; written: rank ${one.rank + 1}, ${exact(share)}`;
  return s("g", { transform: `translate(${x},${y})` },
    s("rect", { width: LENS_WIDE - 2, height: LENS_HIGH - 2, fill: hex(colours.weight(share)), stroke: INK.line },
      s("title", {}, title)),
    s("text", { x: 5, y: 18, "font-size": 12, fill }, shortened(visible(first.text), 7)),
    s("text", { x: LENS_WIDE - 7, y: 18, "font-size": 9, fill, "text-anchor": "end" }, `${one.rank + 1}`));
}
