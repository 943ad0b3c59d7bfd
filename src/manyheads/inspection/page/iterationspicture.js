// View 17 as a picture file: iterations downwards, places to the right; places that do not fit continue below.

import { coloursFor, hex } from "./colour.js";
import { s } from "./dom.js";
import { attemptNow, cellTold, isGone, MASK_SIGN, scoreText } from "./iterationfacts.js";
import { direction, shortened, visible } from "./letters.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";

const [PASS_HIGH, PASS_LEFT, WIDEST_GRID, WARM] = [30, 84, 1120, "#c8553d"];

export function iterationsPicture(shared) {
  const attempt = attemptNow(shared);
  const name = (text) => shortened(visible(text), 16);
  const widths = [...Array(attempt.length).keys()].map((n) =>
    Math.max(34, 16 + 1.1 * Math.max(...attempt.iterations.map((one) => textWidth(name(one.pieces[n]), "13px sans-serif")))));
  const parts = partsOf(widths);
  const rows = attempt.iterations.length;
  const across = Math.max(...parts.map((places) => places.reduce((sum, n) => sum + widths[n], 0)));
  const framed = `framed: ${MASK_SIGN} before, written in this iteration; red: changed`;
  const caption = `${visible(shared.header.model.name || "model")}: ${attempt.length} places, score ${scoreText(attempt.score)}; darker: likelier; ${framed}`;
  const wide = Math.max(PASS_LEFT + across + 24, textWidth(caption, "11px sans-serif") * 1.1 + 32);
  const picture = sheet(Math.ceil(wide), parts.length * (rows * PASS_HIGH + 16) + 56, caption);
  const [colours, mirrored] = [coloursFor("light"), direction(attempt.text) === "rtl"];
  parts.forEach((places, part) => attempt.iterations.forEach((one, pass) => {
    const y = 16 + part * (rows * PASS_HIGH + 16) + pass * PASS_HIGH;
    picture.append(s("text", { x: 16, y: y + 19, fill: INK.soft, "font-size": 12 }, part ? `${pass + 1}` : `iteration ${pass + 1}`));
    let x = PASS_LEFT;
    for (const n of places) {
      const at = mirrored ? PASS_LEFT + across - (x - PASS_LEFT) - widths[n] : x;
      picture.append(passCell(attempt, pass, n, [at, y, widths[n]], colours, name(one.pieces[n])));
      x += widths[n];
    }
  }));
  return picture;
}

// Groups of places that fit side by side.
function partsOf(widths) {
  const parts = [[]];
  let used = 0;
  widths.forEach((width, n) => {
    if (used + width > WIDEST_GRID && parts[parts.length - 1].length) {
      parts.push([]);
      used = 0;
    }
    parts[parts.length - 1].push(n);
    used += width;
  });
  return parts;
}

function passCell(attempt, pass, n, [x, y, width], colours, text) {
  const one = attempt.iterations[pass];
  const sure = 0.9 * Math.exp(one.log_probability[n]) * (one.written[n] ? 1 : 0.12);
  const frame = one.written[n] ? (one.changed[n] ? WARM : INK.ink) : "none";
  const ink = one.written[n] ? colours.onWeight(sure) : INK.soft;
  const gone = isGone(one, n) ? 0.4 : 1;
  return s("g", { transform: `translate(${x.toFixed(1)},${y})`, opacity: gone },
    s("rect", { x: 1.5, y: 1.5, width: (width - 3).toFixed(1), height: PASS_HIGH - 3, rx: 4, fill: hex(colours.weight(sure)), stroke: frame, "stroke-width": one.changed[n] ? 1.6 : 1 },
      s("title", {}, cellTold(attempt, pass, n))),
    s("text", { x: (width / 2).toFixed(1), y: 19.5, "text-anchor": "middle", fill: ink, "font-weight": one.changed[n] ? 600 : 400 }, text));
}
