// View 13, replay: one pair through a model while it was trained. Heads form, the loss falls, words come.

import { inkOf, makeBoard } from "./board.js";
import { css } from "./colour.js";
import { button, choice, kindChoice, layerChoice } from "./controls.js";
import { active, h, replace, replaceControls, rove } from "./dom.js";
import { fact } from "./facts.js";
import { fitBlocks, headBlock, nearest } from "./headblocks.js";
import { imageOf } from "./heatmap.js";
import { visible } from "./letters.js";
import { headShown, meaningOfTrack, momentOf, openNumbers, planesAt, spread, stepName, totalAt, TRACKS } from "./moments.js";
import { pinnedIn } from "./matrix.js";
import { clamp, exact, hundredths, signed } from "./numbers.js";
import { makePlayer } from "./player.js";
import { chartsOf, makeCharts, metricName } from "./replaycharts.js";
import { replayPicture } from "./replaypicture.js";
import { showWriting } from "./replaywriting.js";
import { sheet } from "./saving.js";
import { namesOf } from "./selection.js";
import { thumbnail, thumbnailGrids } from "./thumbnails.js";
import { makeTip } from "./tip.js";
import { gridOf, headName, KINDS, maskOf, rowOf, step } from "./weights.js";

const [WHOLE_FILM, SLOWEST, FASTEST] = [12_000, 700, 120]; // milliseconds that it plays for, and those of a step
const FRAME_WIDE = 78; // pixels of a picture of the film and the space beside it
const TALLEST_MAP = 400; // pixels of the large heat map
const MAP_LABELS = 170; // pixels for the names beside it
const SIDE_BY_SIDE = 760; // pixels, below which charts stand under the map
const LARGEST_THUMB = 72;
const [CHARTS, CAPTION, CHART_TALL] = [3, 36, [130, 210]]; // how many, and pixels above one and of one
const TINT_OF_NUMBER = 0.55;
const ABOUT_WRITING = "The reference, how likely each of its pieces was after those before it, and what was likelier.";
const NO_REPLAY = "This page holds no replay. A training keeps what its heads do with one pair at each validation; "
  + "‘manyheads inspect RUN --replay --html replay.html’ makes a page of it.";

export function replayView(shared) {
  return shared.header.replay ? filmView(shared) : emptyView();
}

function emptyView() {
  const element = h("div", { class: "replay missing" }, h("p", { class: "note" }, NO_REPLAY));
  const nothing = () => {};
  return { element, update: nothing, resize: nothing, repaint: nothing, table: () => [["step"]], picture: () => sheet(640, 60, NO_REPLAY) };
}

function filmView(shared) {
  const { replay, model } = shared.header;
  const { steps } = replay;
  const last = steps.length - 1;
  const play = button("Play", () => player.toggle());
  const slider = h("input", {
    type: "range", min: 0, max: last, step: 1, "aria-label": "Step of the training", input: () => move(Number(slider.value)),
  });
  const when = h("output", { class: "when" });
  const told = h("dl", { class: "facts" });
  const controls = h("div", { class: "controls" });
  const film = h("div", { class: "film", role: "group", "aria-label": "This head over the steps" });
  const title = h("h3", {});
  const board = makeBoard({ look, pin, go: goCell });
  const large = h("section", { class: "large" }, title, board.element);
  const charts = makeCharts({ point: pointAt, choose: chooseStep });
  const writing = h("div", { class: "writing", role: "group", "aria-label": "The reference" });
  const meaning = h("p", { class: "meaning" });
  const blocks = h("div", { class: "blocks" });
  const note = h("p", { class: "note" }, noteOnReplay(replay));
  const element = h("div", { class: "replay" },
    h("div", { class: "transport" }, play, slider, when), told, controls, film,
    h("div", { class: "abreast" }, large, charts.element),
    h("p", { class: "name" }, ABOUT_WRITING), writing, h("div", { class: "formed-map" }, meaning, blocks), note);
  const tip = makeTip(element);
  const buttons = new Map(); // "cross 2 1" → the button of a head
  let shown = null; // {n, grids, numbers, place, …}: what is drawn
  let [filmed, run] = ["", 0];
  let numbers = null;

  const now = () => momentOf(shared);
  const move = (n) => {
    player.stop();
    return goTo(n);
  };
  const goTo = (n) => {
    const at = clamp(n, 0, last);
    return shared.choose({ moment: at === last ? null : steps[at] });
  };
  const player = makePlayer({
    now: () => now() + 1, go: (n) => goTo(n - 1), last: steps.length, shown: () => element.isConnected,
    turned: (playing) => (play.textContent = playing ? "Pause" : "Play"),
    wait: clamp(WHOLE_FILM / steps.length, FASTEST, SLOWEST),
  });
  replace(blocks, KINDS.map((kind) => headBlock(shared.header, kind, (layer, head) => thumbOf({ kind, layer, head }))));

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    numbers = numbers || (await openNumbers(shared));
    const { kind, layer, words, hide } = shared.state;
    const place = { kind, layer, head: headShown(shared, numbers) };
    const look = [kind, layer, place.head, words, hide].join(" ");
    const same = shown && shown.look === look;
    const grids = same ? shown.grids : await Promise.all(steps.map((_, n) => gridOf(seenAt(n), kind, layer, place.head)));
    if (mine !== run) return;
    const n = now();
    shown = { n, look, place, grids, numbers, ...cellsOf(grids[n]) };
    showTransport();
    replaceControls(controls, choosers());
    showLarge();
    charts.show(chartsOf(shared, shown), inkOf(element), tallOfChart());
    showWriting(writing, shared, n);
    if (filmed !== look) showFilm();
    filmed = look;
    markFilm();
    showNumbers();
    shared.say(sentence());
    await Promise.all(KINDS.flatMap((one) => layersOf(one).map((at) => showThumbs(one, at, mine))));
  }

  // What the other views' parts take for the whole: the planes are those of a moment.
  function seenAt(n) {
    return { header: shared.header, state: shared.state, planes: planesAt(shared.planes, n) };
  }

  function cellsOf(grid) {
    const texts = (units) => units.map((unit) => visible(unit.text));
    const labels = { rows: texts(grid.rows), columns: texts(grid.columns) };
    return { grid, labels, totals: null, masked: maskOf(grid), lit: null, pinned: pinnedIn(grid, shared.state) };
  }

  function showTransport() {
    const { n } = shown;
    slider.value = n;
    slider.setAttribute("aria-valuetext", `step ${stepName(steps[n])}`);
    replace(when, "step ", h("b", {}, stepName(steps[n])), ` of ${stepName(steps[last])}`);
    const scores = scoresAt(n).map(([name, value]) => fact(metricName(name), hundredths(value)));
    replace(told, scores, fact("log-probability of the reference", hundredths(totalAt(replay, n))));
  }

  // The perplexity says what the loss says.
  function scoresAt(n) {
    return Object.entries(replay.metrics[n]).filter(([name]) => name !== "perplexity");
  }

  function choosers() {
    const { choose, state } = shared;
    const heads = [...Array(model.heads).keys()].map((n) => [n, String(n)]);
    const tracks = TRACKS.map((track) => [track, track, meaningOfTrack(track)]);
    return [
      kindChoice(shared), layerChoice(shared),
      choice("Head", heads, shown.place.head, (head) => choose({ head })),
      choice("Follow", tracks, state.track, (track) => choose({ track })),
    ];
  }

  function showLarge() {
    const { colours, state } = shared;
    const { place, n, grid } = shown;
    replace(title, `${place.kind} ${headName(place.layer, place.head)}`, h("small", {}, `at step ${stepName(steps[n])}`));
    const ink = inkOf(element);
    Object.assign(shown, { colours, power: state.power, ink, image: imageOf(grid, colours, state.power) });
    board.show(shown, roomForMap());
  }

  function roomForMap() {
    const wide = element.clientWidth;
    const room = wide > SIDE_BY_SIDE ? wide * 0.54 : wide;
    const { rows, columns } = shown.grid;
    return Math.min(room, MAP_LABELS + (TALLEST_MAP * columns.length) / rows.length);
  }

  // Beside the map, charts are as high as it is, together.
  function tallOfChart() {
    const abreast = element.clientWidth > SIDE_BY_SIDE;
    return abreast ? clamp(Math.floor(large.offsetHeight / CHARTS) - CAPTION, ...CHART_TALL) : CHART_TALL[0];
  }

  // ── the film: the chosen head at some of the steps ────────────────────────────────────────────────────────────────

  function showFilm() {
    const places = spread(steps.length, clamp(Math.floor(element.clientWidth / FRAME_WIDE), 2, 14));
    replace(film, places.map((n) => h("button", {
      type: "button", class: "film-frame", "data-moment": n, "aria-label": `step ${stepName(steps[n])}`, tabindex: -1,
      click: () => move(n),
    }, h("span", { class: "face" }, thumbnail(shown.grids[n], shared.colours)), h("span", {}, stepName(steps[n])))));
  }

  // The picture of the moment; else, less loudly, the one that is nearest.
  function markFilm() {
    const frames = [...film.children];
    const away = frames.map((frame) => Math.abs(Number(frame.dataset.moment) - shown.n));
    const at = away.indexOf(Math.min(...away));
    frames.forEach((frame, n) => {
      frame.toggleAttribute("aria-current", n === at && !away[n]);
      frame.classList.toggle("near", n === at && away[n] > 0);
    });
    rove(frames, at);
  }

  // ── every head ────────────────────────────────────────────────────────────────────────────────────────────────────

  function thumbOf(place) {
    const { kind, layer, head } = place;
    const acts = {
      click: () => shared.choose(place),
      focus: () => shared.say(sentenceOn(place)),
      pointermove: (event) => tip.show(event, h("b", {}, valueOf(place)), `${kind} ${headName(layer, head)}`,
        h("small", {}, `${shared.state.track}, step ${stepName(steps[shown.n])}`)),
      pointerleave: tip.hide,
    };
    const label = `${kind}, layer ${layer}, head ${head}`;
    const made = h("button", { type: "button", class: "thumb", "aria-label": label, tabindex: -1, ...acts },
      h("span", { class: "face" }), h("span", { class: "value" }));
    buttons.set(`${kind} ${layer} ${head}`, made);
    return made;
  }

  async function showThumbs(kind, layer, mine) {
    const found = await thumbnailGrids(seenAt(shown.n), kind, layer);
    if (mine !== run) return;
    found.forEach((grid, head) =>
      replace(buttons.get(`${kind} ${layer} ${head}`).firstChild, thumbnail(grid, shared.colours)));
  }

  function showNumbers() {
    const { track } = shared.state;
    meaning.textContent = `${track}: ${meaningOfTrack(track)}`;
    const places = [...buttons.keys()].map((name) => placeNamed(name));
    const most = Math.max(1e-9, ...places.flatMap((place) => steps.map((_, n) => numbers(n, place, track) || 0)));
    const whole = !["entropy", "distance"].includes(track);
    for (const place of places) {
      const made = buttons.get(`${place.kind} ${place.layer} ${place.head}`);
      const value = numbers(shown.n, place, track);
      const share = Number.isNaN(value) ? 0 : TINT_OF_NUMBER * (value / (whole ? 1 : most));
      made.lastChild.textContent = Number.isNaN(value) ? "–" : value.toFixed(2);
      made.style.setProperty("--tint", share ? css(shared.colours.weight(share)) : "transparent");
      made.style.setProperty("--on", shared.colours.onWeight(share));
      const here = ["kind", "layer", "head"].every((key) => place[key] === shown.place[key]);
      made.toggleAttribute("aria-current", here);
    }
    const all = [...buttons.values()];
    const used = all.indexOf(active(element));
    rove(all, used >= 0 ? used : all.findIndex((one) => one.hasAttribute("aria-current")));
    fitBlocks(element, model.heads, LARGEST_THUMB);
  }

  function placeNamed(name) {
    const [kind, layer, head] = name.split(" ");
    return { kind, layer: Number(layer), head: Number(head) };
  }

  function layersOf(kind) {
    return [...Array(model.layers[kind]).keys()];
  }

  // ── what is looked at ─────────────────────────────────────────────────────────────────────────────────────────────

  function valueOf(place) {
    const value = numbers(shown.n, place, shared.state.track);
    return Number.isNaN(value) ? "–" : exact(value);
  }

  function sentenceOn(place) {
    return `${place.kind} ${headName(place.layer, place.head)}: ${shared.state.track} ${valueOf(place)}`;
  }

  function sentence() {
    const { n, place } = shown;
    const scores = scoresAt(n).map(([name, value]) => `${metricName(name)} ${hundredths(value)}`);
    const reference = `log-probability of the reference ${hundredths(totalAt(replay, n))}`;
    return `step ${stepName(steps[n])}: ${[...scores, reference, sentenceOn(place)].join(", ")}`;
  }

  function cellSentence({ row, column }) {
    const { grid, labels, masked, n, place } = shown;
    const pair = `‘${labels.rows[row]}’ at ‘${labels.columns[column]}’`;
    const where = `${place.kind} ${headName(place.layer, place.head)}, step ${stepName(steps[n])}`;
    return `${pair}: ${masked(row, column) ? "masked" : exact(rowOf(grid, row)[column])} (${where})`;
  }

  function look(cell, event) {
    shown.lit = cell;
    board.repaint();
    if (!cell) return tip.hide();
    const { grid, labels, masked } = shown;
    const about = step(shared.header, grid, cell.row, visible);
    shared.say(cellSentence(cell));
    return tip.show(event,
      h("b", {}, masked(cell.row, cell.column) ? "not yet written" : exact(rowOf(grid, cell.row)[cell.column])),
      h("bdi", {}, `${labels.rows[cell.row]} → ${labels.columns[cell.column]}`), about ? h("small", {}, about) : null);
  }

  async function pin({ row, column }) {
    const { grid, pinned } = shown;
    const { query, key } = namesOf(grid.kind);
    const same = pinned && pinned.row === row && pinned.column === column;
    const first = (units, n) => (same ? null : units[n].pieces[0]);
    await shared.choose({ [query]: first(grid.rows, row), [key]: first(grid.columns, column) });
    if (!same) shared.say(cellSentence({ row, column }));
  }

  function goCell([down, right]) {
    const { grid, pinned } = shown;
    const whole = pinned && pinned.row >= 0 && pinned.column >= 0;
    const from = pinned || { row: 0, column: 0 };
    const cell = {
      row: clamp(from.row + (whole ? down : 0), 0, grid.rows.length - 1),
      column: clamp(from.column + (whole ? right : 0), 0, grid.columns.length - 1),
    };
    if (whole && cell.row === from.row && cell.column === from.column) return;
    board.reveal(cell);
    pin(cell);
  }

  function pointAt(event, name, values) {
    if (!event) return tip.hide();
    shared.say(`${name}: ${values.map(([line, step, value]) => `${line} ${signed(value)} at step ${stepName(step)}`).join(", ")}`);
    return tip.show(event, h("b", {}, name), h("dl", {}, values.map(([line, step, value]) =>
      h("div", {}, h("dt", {}, `${line}, step ${stepName(step)}`), h("dd", {}, signed(value))))));
  }

  function chooseStep(step) {
    const away = steps.map((one) => Math.abs(one - step));
    move(away.indexOf(Math.min(...away)));
  }

  // ── keys, files ───────────────────────────────────────────────────────────────────────────────────────────────────

  element.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const thumb = event.target.closest(".thumb");
    const next = thumb && nearest([...buttons.values()], thumb, event.key);
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (next) next.focus();
    else if (by && !event.target.matches("input") && !thumb && !board.element.contains(event.target)) stepBy(by, event.target);
    else if (event.key === " " && !event.target.matches("button, input[type=radio]")) player.toggle();
    else return;
    event.preventDefault();
  });

  // One step on or back; in the film, to the next picture.
  function stepBy(by, from) {
    const frames = [...film.children];
    const at = frames.indexOf(from);
    if (at < 0) return move(now() + by);
    const next = frames[clamp(at + by, 0, frames.length - 1)];
    next.focus();
    return move(Number(next.dataset.moment));
  }

  function resize() {
    if (!shown || !element.clientWidth) return;
    board.resize(roomForMap());
    charts.resize(tallOfChart());
    fitBlocks(element, model.heads, LARGEST_THUMB);
    showFilm();
    markFilm();
  }

  return {
    element,
    update,
    resize,
    repaint: () => {
      filmed = "";
      update();
    },
    table: () => replayTable(shared, shown),
    picture: () => replayPicture(shared, shown),
  };
}

function noteOnReplay({ chosen, left_out: leftOut, lost }) {
  return [
    "The model is made to write the reference at every step: a row means the same throughout.",
    "Weights have 16 bits; numbers of heads are of pieces, begin and end included.",
    chosen === null ? "" : `A dotted line marks the best validation, step ${stepName(chosen)}: other views show that model.`,
    leftOut ? `Left out, so that the page is not too large: ${leftOut} moments between these.` : "",
    lost ? `Left out, damaged or of another pair: ${lost} moments.` : "",
  ].filter(Boolean).join(" ");
}

// Every moment: the scores, the reference, and the chosen head's numbers and weights.
function replayTable({ header }, { grids, numbers, place, masked, labels }) {
  const { replay } = header;
  const metrics = [...new Set(replay.metrics.flatMap((one) => Object.keys(one)))];
  const tracks = TRACKS.filter((track) => !Number.isNaN(numbers(0, place, track)));
  const cells = labels.rows.flatMap((_, row) => labels.columns.map((__, column) => [row, column]))
    .filter(([row, column]) => !masked(row, column));
  const names = cells.map(([row, column]) => `${labels.rows[row]} → ${labels.columns[column]}`);
  const line = (step, n) => [
    step, ...metrics.map((name) => (name in replay.metrics[n] ? replay.metrics[n][name].toFixed(6) : "")),
    totalAt(replay, n).toFixed(6), ...tracks.map((track) => numbers(n, place, track).toFixed(6)),
    ...cells.map(([row, column]) => rowOf(grids[n], row)[column].toFixed(6)),
  ];
  return [["step", ...metrics.map(metricName), "log-probability", ...tracks, ...names], ...replay.steps.map(line)];
}
