// Curves over training steps: axes with round numbers, and a vertical line at the current step.

import { s } from "./dom.js";

const RIMS = { left: 40, right: 10, top: 8, bottom: 20 };
const ABOUT = 4; // grid lines, at most
const NEARLY = 1e-3; // of the gap between grid lines: rounding errors this small add no further line

// lines: [{name, points: [[step, value]], hue, faint}]. `from`, `to`: the steps of the axis; `low`, `high`: values that
// the axis must include. `now` is the current step, `chosen` the step that the model was taken from.
export function makeScales({ lines, from, to, low, high }, [wide, tall]) {
  const values = lines.flatMap((line) => line.points.map(([, value]) => value));
  const [least, most] = [Math.min(...values, low), Math.max(...values, high)];
  const gap = pace(most > least ? most - least : Math.abs(most) || 1);
  const [bottom, top] = [Math.floor(least / gap + NEARLY) * gap, Math.ceil(most / gap - NEARLY) * gap];
  const [x0, x1, y0, y1] = [RIMS.left, wide - RIMS.right, tall - RIMS.bottom, RIMS.top];
  return {
    x: (step) => x0 + ((step - from) / Math.max(1, to - from)) * (x1 - x0),
    y: (value) => y0 - ((value - bottom) / (top - bottom || 1)) * (y0 - y1),
    step: (x) => from + ((x - x0) / (x1 - x0)) * (to - from),
    rows: ticks(bottom, top, gap),
    columns: ticks(Math.ceil(from / pace(to - from || 1)) * pace(to - from || 1), to, pace(to - from || 1)),
    box: { x0, x1, y0, y1 },
  };
}

// The grid spacing: 1, 2 or 5 times a power of ten.
function pace(range) {
  const power = 10 ** Math.floor(Math.log10(range / ABOUT));
  return [1, 2, 5, 10].map((factor) => factor * power).find((gap) => range / gap <= ABOUT + 1e-6) || 20 * power;
}

function ticks(from, to, gap) {
  const count = Math.floor((to - from) / gap + 1e-6) + 1;
  return [...Array(Math.max(0, count)).keys()].map((n) => Number((from + n * gap).toPrecision(12)));
}

// A short number for an axis: 12.5k, 0.04.
export function axisNumber(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e3) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

// The value at a step: the last one recorded by then.
export function valueAt({ points }, step) {
  const known = points.filter(([at]) => at <= step);
  return known.length ? known[known.length - 1][1] : null;
}

// ink: {soft, line, grid, mark, card}
export function chartShapes(chart, scales, ink) {
  const { box, x, y } = scales;
  const text = (at, content, more) => s("text", { ...at, fill: ink.soft, "font-size": 10.5, ...more }, content);
  const rows = scales.rows.flatMap((value) => [
    s("path", { d: `M${box.x0} ${y(value).toFixed(1)}H${box.x1}`, stroke: ink.grid }),
    text({ x: box.x0 - 6, y: (y(value) + 3.5).toFixed(1) }, axisNumber(value), { "text-anchor": "end" }),
  ]);
  const columns = scales.columns.map((step) =>
    text({ x: x(step).toFixed(1), y: box.y0 + 15 }, axisNumber(step), { "text-anchor": "middle" }));
  const upright = (step, look) =>
    s("path", { d: `M${x(step).toFixed(1)} ${box.y1}V${box.y0}`, fill: "none", ...look });
  return [
    ...rows,
    s("path", { d: `M${box.x0} ${box.y0}H${box.x1}`, stroke: ink.line }),
    ...columns,
    chart.chosen === null ? null : upright(chart.chosen, { stroke: ink.soft, "stroke-dasharray": "2 4" }),
    upright(chart.now, { stroke: ink.mark, "stroke-width": 1.5 }),
    ...chart.lines.map((line) => trackOf(line, scales)),
    ...chart.lines.filter((line) => !line.faint).map((line) => dot(line, chart.now, scales, ink)),
  ].filter(Boolean);
}

function trackOf({ points, hue, faint }, { x, y }) {
  const d = points.map(([step, value]) => `${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
  const look = { fill: "none", stroke: hue, "stroke-linejoin": "round", "stroke-linecap": "round" };
  return s("path", { d: `M${d}`, ...look, "stroke-width": faint ? 1 : 1.8, opacity: faint ? 0.35 : 1 });
}

function dot(line, now, { x, y }, ink) {
  const value = valueAt(line, now);
  if (value === null) return null;
  const place = { cx: x(now).toFixed(1), cy: y(value).toFixed(1), r: 3.6 };
  return s("circle", { ...place, fill: line.hue, stroke: ink.card, "stroke-width": 1.5 });
}
