// View 13, replay: one sentence pair through a model during training. Heads form, the loss falls, words appear.

import { inkOf, makeBoard } from "./board.js";
import { nextCell, pinChange } from "./cells.js";
import { button, choice, kindChoice, layerChoice } from "./controls.js";
import { h, replace, replaceControls } from "./dom.js";
import { fact } from "./facts.js";
import { imageOf } from "./heatmap.js";
import { visible } from "./letters.js";
import { pinnedIn } from "./matrix.js";
import { headShown, meaningOfTrack, momentOf, openNumbers, planesAt, stepName, totalAt, TRACKS } from "./moments.js";
import { clamp, exact, hundredths, signed } from "./numbers.js";
import { makePlayer } from "./player.js";
import { chartsOf, makeCharts, metricName } from "./replaycharts.js";
import { makeFilm } from "./replayfilm.js";
import { makeHeadMap } from "./replaymap.js";
import { replayPicture } from "./replaypicture.js";
import { noteOnReplay, replayTable } from "./replaytable.js";
import { showWriting } from "./replaywriting.js";
import { sheet } from "./saving.js";
import { makeTip } from "./tip.js";
import { gridOf, headName, maskOf, rowOf, step } from "./weights.js";

const [WHOLE_FILM, SLOWEST, FASTEST] = [12_000, 700, 120]; // milliseconds: of the film, and of a step at most and least
const [TALLEST_MAP, MAP_LABELS] = [400, 170]; // pixels of the large heat map, and for the labels beside it
const [SIDE_BY_SIDE, MAP_SHARE] = [760, 0.54]; // pixels from which charts stand beside the map, and the map's share
const [CHARTS, CAPTION, CHART_TALL] = [3, 36, [130, 210]]; // number of charts; pixels of a caption and of a chart
const WRITING = "The reference: how likely each piece was, given the pieces before it, and any piece that was likelier.";
const NO_REPLAY = "This page holds no replay. Training records what heads do with one sentence pair at each validation; "
  + "‘manyheads inspect RUN --replay --html replay.html’ makes a page of it.";

export function replayView(shared) {
  return shared.header.replay ? filmView(shared) : emptyView();
}

function emptyView() {
  const element = h("div", { class: "replay" }, h("p", { class: "note" }, NO_REPLAY));
  const nothing = () => {};
  const files = { table: () => [["step"]], picture: () => sheet(1000, 60, NO_REPLAY) };
  return { element, update: nothing, resize: nothing, repaint: nothing, ...files };
}

function filmView(shared) {
  const { replay, model } = shared.header;
  const { steps } = replay;
  const last = steps.length - 1;
  const play = button("Play", () => player.toggle());
  const sliding = { type: "range", min: 0, max: last, step: 1, "aria-label": "Training step" };
  const slider = h("input", { ...sliding, input: () => move(Number(slider.value)) });
  const when = h("output", { class: "when" });
  const told = h("dl", { class: "facts" });
  const controls = h("div", { class: "controls" });
  const film = makeFilm(steps, move);
  const title = h("h3", {});
  const board = makeBoard({ look, pin, go: goCell });
  const large = h("section", { class: "large" }, title, board.element);
  const charts = makeCharts({ point: pointAtChart, choose: chooseStep });
  const writing = h("div", { class: "writing", role: "group", "aria-label": "Reference" });
  const map = makeHeadMap(shared.header, {
    choose: (place) => shared.choose(place), tell: (place) => shared.say(sentenceOn(place)), point: pointAtHead,
  });
  const element = h("div", { class: "replay" },
    h("div", { class: "transport" }, play, slider, when), told, controls, film.element,
    h("div", { class: "abreast" }, large, charts.element),
    h("p", { class: "name" }, WRITING), writing, map.element, h("p", { class: "note" }, noteOnReplay(replay)));
  const tip = makeTip(element);
  let shown = null; // {n, look, place, grids, numbers, and the content of the board}
  let [numbers, run] = [null, 0];

  const now = () => momentOf(shared);
  const player = makePlayer({
    now: () => now() + 1, go: (n) => goTo(n - 1), last: () => steps.length, shown: () => element.isConnected,
    turned: (playing) => (play.textContent = playing ? "Pause" : "Play"),
    wait: clamp(WHOLE_FILM / steps.length, FASTEST, SLOWEST),
  });

  function goTo(n) {
    const at = clamp(n, 0, last);
    return shared.choose({ moment: at === last ? null : steps[at] });
  }

  function move(n) {
    player.stop();
    return goTo(n);
  }

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    numbers = numbers || (await openNumbers(shared));
    const { kind, layer, words, hide } = shared.state;
    const place = { kind, layer, head: headShown(shared, numbers) };
    const look = [kind, layer, place.head, words, hide].join(" ");
    const same = shown && shown.look === look;
    const grids = same ? shown.grids : await Promise.all(steps.map((_, at) => gridAt(at, place)));
    if (mine !== run) return;
    const n = now();
    shown = { n, look, place, grids, numbers, ...cellsOf(grids[n]) };
    showTransport();
    replaceControls(controls, choosers());
    showLarge();
    charts.show(chartsOf(shared, shown), shown.ink, tallOfChart());
    showWriting(writing, shared, n);
    if (!same) film.show(grids, shared.colours);
    film.mark(n);
    map.showNumbers(shown, shared.state.track, shared.colours);
    shared.say(sentence());
    await map.showThumbs(seenAt(n), shared.colours, () => mine === run);
  }

  // The `shared` object for parts of other views, with the planes of one moment.
  function seenAt(n) {
    return { header: shared.header, state: shared.state, planes: planesAt(shared.planes, n) };
  }

  function gridAt(n, { kind, layer, head }) {
    return gridOf(seenAt(n), kind, layer, head);
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

  // Perplexity is left out, as it says the same as the loss.
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
    const at = h("small", {}, `at step ${stepName(steps[n])}`);
    replace(title, `${place.kind} ${headName(place.layer, place.head)}`, at);
    const image = imageOf(grid, colours, state.power);
    Object.assign(shown, { colours, power: state.power, ink: inkOf(element), image });
    board.show(shown, roomForMap());
  }

  function roomForMap() {
    const wide = element.clientWidth;
    const { rows, columns } = shown.grid;
    const useful = MAP_LABELS + (TALLEST_MAP * columns.length) / rows.length;
    return Math.min(wide > SIDE_BY_SIDE ? wide * MAP_SHARE : wide, useful);
  }

  // Charts beside the map together have its height.
  function tallOfChart() {
    const abreast = element.clientWidth > SIDE_BY_SIDE;
    return abreast ? clamp(Math.floor(large.offsetHeight / CHARTS) - CAPTION, ...CHART_TALL) : CHART_TALL[0];
  }

  function resize() {
    if (!shown || !element.clientWidth) return;
    board.resize(roomForMap());
    charts.resize(tallOfChart());
    map.fit();
    film.show(shown.grids, shared.colours);
    film.mark(shown.n);
  }

  // ── hovering and pinning ──────────────────────────────────────────────────────────────────────────────────────────

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
    const pair = `‘${labels.rows[row]}’ → ‘${labels.columns[column]}’`;
    const where = `${place.kind} ${headName(place.layer, place.head)}, step ${stepName(steps[n])}`;
    return `${pair}: ${masked(row, column) ? "masked" : exact(rowOf(grid, row)[column])} (${where})`;
  }

  function look(cell, event) {
    shown.lit = cell;
    board.repaint();
    if (!cell) return tip.hide();
    const { grid, labels, masked } = shown;
    const about = step(shared.header, grid, cell.row, visible);
    const weight = masked(cell.row, cell.column) ? "masked" : exact(rowOf(grid, cell.row)[cell.column]);
    const pair = `${labels.rows[cell.row]} → ${labels.columns[cell.column]}`;
    shared.say(cellSentence(cell));
    return tip.show(event, h("b", {}, weight), h("bdi", {}, pair), about ? h("small", {}, about) : null);
  }

  async function pin(cell) {
    const { pinned } = shown;
    await shared.choose(pinChange(shown.grid, pinned, cell));
    const same = pinned && pinned.row === cell.row && pinned.column === cell.column;
    if (!same) shared.say(cellSentence(cell));
  }

  function goCell(by) {
    const cell = nextCell(shown.grid, shown.pinned, by);
    if (!cell) return;
    board.reveal(cell);
    pin(cell);
  }

  function pointAtHead(place, event) {
    if (!event) return tip.hide();
    shared.say(sentenceOn(place));
    const about = `${shared.state.track}, step ${stepName(steps[shown.n])}`;
    const name = `${place.kind} ${headName(place.layer, place.head)}`;
    return tip.show(event, h("b", {}, valueOf(place)), name, h("small", {}, about));
  }

  function pointAtChart(event, name, values) {
    if (!event) return tip.hide();
    const said = values.map(([line, at, value]) => `${line} ${signed(value)} at step ${stepName(at)}`);
    shared.say(`${name}: ${said.join(", ")}`);
    return tip.show(event, h("b", {}, name), h("dl", {}, values.map(([line, at, value]) =>
      h("div", {}, h("dt", {}, `${line}, step ${stepName(at)}`), h("dd", {}, signed(value))))));
  }

  function chooseStep(wanted) {
    const away = steps.map((one) => Math.abs(one - wanted));
    move(away.indexOf(Math.min(...away)));
  }

  // ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  // Arrow keys move between steps, except within the map and the heat map; the slider handles them itself.
  element.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const { key, target } = event;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
    const thumb = target.closest(".thumb");
    const next = thumb && map.beside(thumb, key);
    if (next) next.focus();
    else if (by && !thumb && !target.matches("input")) stepBy(by, target);
    else if (key === " " && !target.matches("button, input[type=radio]")) player.toggle();
    else return;
    event.preventDefault();
  });

  function stepBy(by, from) {
    const filmed = film.beside(from, by);
    move(filmed === null ? now() + by : filmed);
  }

  const repaint = () => {
    if (shown) shown.look = ""; // so that the film is redrawn, too
    return update();
  };
  const files = { table: () => replayTable(shared, shown), picture: () => replayPicture(shared, shown) };
  return { element, update, resize, repaint, ...files };
}
