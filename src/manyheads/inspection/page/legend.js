// The legend of the colours: the axis is the weight itself, evenly; the colours show what the scale makes of it.

import { css, scaleOf } from "./colour.js";

const TICKS = [0, 0.1, 0.25, 0.5, 0.75, 1];

export function drawLegend(canvas, colours, power, ink) {
  const context = canvas.getContext("2d");
  const [width, scale] = [canvas.clientWidth - 16, scaleOf(power)];
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  for (let x = 0; x < width; x += 1) {
    context.fillStyle = css(colours.weight(scale(x / (width - 1))));
    context.fillRect(8 + x, 2, 1.5, 9);
  }
  context.strokeStyle = ink.line;
  context.strokeRect(8.5, 2.5, width, 8);
  context.fillStyle = ink.soft;
  context.font = `10px ${ink.sans}`;
  [context.textAlign, context.textBaseline] = ["center", "top"];
  for (const tick of TICKS) context.fillText(String(tick).replace(/^0\./, "."), 8 + tick * width, 15);
}
