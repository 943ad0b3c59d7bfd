// The colour legend: the axis is linear in the weight; the colours show the effect of the colour scale.

import { css, scaleOf } from "./colour.js";
import { clamp, signed } from "./numbers.js";

const RIM = 8; // pixels on both sides, for the labels at the ends
const TICKS = [0, 0.1, 0.25, 0.5, 0.75, 1];

export function drawLegend(canvas, colours, power, ink) {
  const scale = scaleOf(power);
  const names = TICKS.map((tick) => [tick, String(tick).replace(/^0\./, ".")]);
  drawScale(canvas, (share) => colours.weight(scale(share)), names, ink);
}

// The legend of signed values, from −most to +most.
export function drawSignedLegend(canvas, colours, most, ink) {
  const names = [[0, signed(-most, 2)], [0.5, "0"], [1, `+${signed(most, 2)}`]];
  drawScale(canvas, (share) => colours.signed(2 * share - 1), names, ink);
}

// names: [[share of the width, text]]
function drawScale(canvas, colourAt, names, ink) {
  const context = canvas.getContext("2d");
  const width = canvas.clientWidth - 2 * RIM;
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  for (let x = 0; x < width; x += 1) {
    context.fillStyle = css(colourAt(x / (width - 1)));
    context.fillRect(RIM + x, 2, 1.5, 9);
  }
  context.strokeStyle = ink.line;
  context.strokeRect(RIM + 0.5, 2.5, width, 8);
  context.fillStyle = ink.soft;
  context.font = `10px ${ink.sans}`;
  context.textBaseline = "top";
  for (const [share, text] of names) {
    const half = context.measureText(text).width / 2;
    const at = clamp(RIM + share * width, half, canvas.clientWidth - half);
    context.textAlign = "center";
    context.fillText(text, at, 15);
  }
}
