// View 13 as a picture file: a head at one step, the curves, and a film strip of the head.

import { chartShapes, makeScales, axisNumber, valueAt } from "./chart.js";
import { coloursFor } from "./colour.js";
import { s } from "./dom.js";
import { visible } from "./letters.js";
import { hiddenNote } from "./linespicture.js";
import { gridPicture } from "./matrixpicture.js";
import { spread, stepName } from "./moments.js";
import { clamp } from "./numbers.js";
import { chartsOf } from "./replaycharts.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";
import { thumbnail } from "./thumbnails.js";
import { headName } from "./weights.js";

const [LEAST_WIDE, CHART_HIGH, CHART_HEADROOM] = [360, 130, 22];
const [FILM_SIDE, FILM_PACE, FILM_PICTURES] = [72, 84, 12];
const ON_PAPER = { soft: INK.soft, line: INK.line, grid: "#efebe4", mark: "#c8553d", card: INK.paper };

export function replayPicture(shared, shown) {
  const { header, state } = shared;
  const { place, labels, grid, n } = shown;
  const widest = (texts) => Math.max(0, ...texts.map((text) => textWidth(text, "13px sans-serif"))) * 1.1;
  const [left, top] = [widest(labels.rows) + 26, widest(labels.columns) * 0.78 + 30];
  const cell = clamp(380 / Math.max(grid.columns.length, grid.rows.length), 6, 40);
  const middle = left + cell * grid.columns.length + widest(labels.columns) * 0.6 + 30;
  const charts = chartsOf(shared, shown, "light");
  const [{ steps }, pace] = [header.replay, CHART_HIGH + CHART_HEADROOM];
  const high = Math.max(top + cell * grid.rows.length, charts.length * pace) + 24;
  const frames = spread(steps.length, FILM_PICTURES);
  const wide = Math.max(middle + LEAST_WIDE + 16, frames.length * FILM_PACE + 32);
  const name = visible(header.model.name || "model");
  const where = `${place.kind} ${headName(place.layer, place.head)} at step ${stepName(steps[n])}`;
  const caption = `${name}: ${where}; shades of thumbnails: square root${hiddenNote(state)}`;
  const picture = sheet(Math.ceil(wide), Math.ceil(high + FILM_SIDE + 64), caption);
  picture.append(
    gridPicture(shown, cell, state.power, [left, top]),
    ...charts.map((chart, at) => chartPicture(chart, wide - middle - 16, [middle, 10 + at * pace])),
    ...frames.map((moment, at) => framePicture(shown.grids[moment], steps[moment], [16 + at * FILM_PACE, high])),
  );
  return picture;
}

function chartPicture(chart, wide, [x, y]) {
  const lines = chart.lines.filter((line) => !line.faint);
  const said = lines.map((line) => {
    const value = valueAt(line, chart.now);
    return s("tspan", { fill: line.hue, dx: 10 }, `${line.name} ${value === null ? "–" : axisNumber(value)}`);
  });
  const scales = makeScales(chart, [wide, CHART_HIGH]);
  return s("g", { transform: `translate(${x.toFixed(1)},${y.toFixed(1)})` },
    s("text", { y: 12, "font-size": 12 }, s("tspan", {}, chart.title), said),
    s("g", { transform: `translate(0,${CHART_HEADROOM - 4})` }, chartShapes(chart, scales, ON_PAPER)));
}

function framePicture(grid, step, [x, y]) {
  const side = { width: FILM_SIDE, height: FILM_SIDE };
  const href = thumbnail(grid, coloursFor("light")).toDataURL("image/png");
  return s("g", { transform: `translate(${x},${y.toFixed(1)})` },
    s("rect", { ...side, fill: INK.line }),
    s("image", { href, ...side, preserveAspectRatio: "none", "image-rendering": "pixelated" }),
    s("rect", { ...side, fill: "none", stroke: INK.line }),
    s("text", { x: FILM_SIDE / 2, y: FILM_SIDE + 14, "text-anchor": "middle", "font-size": 10.5 }, stepName(step)));
}
