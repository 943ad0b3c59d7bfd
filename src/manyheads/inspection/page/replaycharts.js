// The curves beside a replay: losses, scores, and the followed measure of the chosen head.

import { chartShapes, makeScales, axisNumber, valueAt } from "./chart.js";
import { h, replace, s } from "./dom.js";
import { hueOf } from "./hues.js";

const HUES_OF_LINES = [1, null, 4, 2]; // head numbers in hues.js
const METRICS = {
  loss: "dev loss", bleu: "BLEU", chrf: "chrF", wer: "word error rate", per: "phone error rate",
};

export function metricName(name) {
  return METRICS[name] || name;
}

// [{title, lines, from, to, low, high, now, chosen}]: the charts that have data.
export function chartsOf({ header, state, colours }, { n, place, numbers }, theme = colours.theme) {
  const { steps, curves, chosen } = header.replay;
  const hue = (at) => hueOf(HUES_OF_LINES[at % HUES_OF_LINES.length], theme);
  const given = (list) => list.map((line, at) => ({ ...line, hue: hue(at) }));
  const heads = [...Array(header.model.heads).keys()];
  const follow = (head) => steps.map((step, at) => [step, numbers(at, { ...place, head }, state.track)]);
  const others = heads.filter((head) => head !== place.head);
  const known = !Number.isNaN(numbers(0, place, state.track));
  const own = known ? [
    ...others.map((head) => ({ name: `head ${head}`, points: follow(head), hue: hueOf(null, theme), faint: true })),
    { name: `head ${place.head}`, points: follow(place.head), hue: hueOf(null, theme) },
  ] : [];
  const all = [...curves.loss, ...curves.score].flatMap((line) => line.points.map(([step]) => step));
  const shared = { from: 0, to: Math.max(...steps, ...all), now: steps[n], chosen };
  const room = { low: Infinity, high: -Infinity };
  return [
    { title: "Loss", lines: given(curves.loss), ...room, ...shared },
    { title: "Dev scores", lines: given(curves.score), ...room, low: 0, ...shared },
    { title: `${state.track}: ${place.kind} ${place.layer}·${place.head}`, lines: own, ...room, low: 0, ...shared },
  ].filter((chart) => chart.lines.length);
}

// Callbacks for the mouse: point(event, title, [[line, step, value]]) and choose(step).
export function makeCharts({ point, choose }) {
  const element = h("div", { class: "curves" });
  let [charts, ink, tall] = [[], null, 0];

  function show(next, colours, height) {
    [charts, ink, tall] = [next, colours, height];
    while (element.children.length > charts.length) element.lastChild.remove();
    while (element.children.length < charts.length) element.append(figureOf());
    charts.forEach((chart, n) => draw(element.children[n], chart));
  }

  function figureOf() {
    return h("figure", {}, h("figcaption", {}), s("svg", { role: "img" }));
  }

  function draw(figure, chart) {
    const wide = element.children.length && figure.clientWidth ? figure.clientWidth : 320;
    const scales = makeScales(chart, [wide, tall]);
    const [caption, old] = figure.children;
    const values = chart.lines.filter((line) => !line.faint).map((line) => {
      const value = valueAt(line, chart.now);
      const key = h("i", {}, `${line.name} ${value === null ? "–" : axisNumber(value)}`);
      key.style.setProperty("--hue", line.hue);
      return key;
    });
    replace(caption, h("b", {}, chart.title), values);
    const size = { width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}` };
    const acts = {
      pointermove: (event) => point(event, chart.title, near(chart, stepUnder(event))),
      pointerleave: () => point(null),
      click: (event) => choose(stepUnder(event)),
    };
    const picture = s("svg", { ...size, role: "img", "aria-label": `${chart.title} over training steps`, ...acts },
      s("rect", { width: wide, height: tall, fill: "transparent" }), chartShapes(chart, scales, ink));
    const stepUnder = (event) => scales.step(event.clientX - picture.getBoundingClientRect().left);
    old.replaceWith(picture);
  }

  const near = (chart, step) => chart.lines.filter((line) => !line.faint).map((line) => {
    const away = line.points.map(([at]) => Math.abs(at - step));
    const [at, value] = line.points[away.indexOf(Math.min(...away))];
    return [line.name, at, value];
  });

  return { element, show, resize: (height) => show(charts, ink, height) };
}
