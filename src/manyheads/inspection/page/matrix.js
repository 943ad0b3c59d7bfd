// View 3, matrix: the weights of one head, or of the mean of heads, as a heat map with numbers.

import { heaviest, showBars } from "./bars.js";
import { inkOf, makeBoard, sharpen } from "./board.js";
import { nextCell, pinChange } from "./cells.js";
import { SCALE_NAMES } from "./colour.js";
import { button, headChoice, kindChoice, layerChoice } from "./controls.js";
import { h, replace, replaceControls } from "./dom.js";
import { imageOf, totalsOf } from "./heatmap.js";
import { drawLegend } from "./legend.js";
import { visible } from "./letters.js";
import { matrixPicture } from "./matrixpicture.js";
import { exact } from "./numbers.js";
import { namesOf, POWERS } from "./selection.js";
import { makeTip } from "./tip.js";
import { gridOf, headName, maskOf, rowOf, step, unitWith } from "./weights.js";

const MOST_BARS = 16;
const ASIDE = 320; // pixels for the list beside the map, if there is room for both
const NARROW = 760;
const LEGEND = 260;
const LEFT_OUT = "The weights of this layer were left out of this page to limit its size.";

export function matrixView(shared) {
  const board = makeBoard({ look, pin, go });
  const tip = makeTip(board.element);
  const controls = h("div", { class: "controls" });
  const legend = h("canvas", { class: "legend" });
  const slider = h("input", {
    type: "range", min: 0, max: POWERS.length - 1, step: 1, "aria-label": "Colour scale",
    input: () => shared.choose({ power: POWERS[slider.value] }),
  });
  const scaleName = h("span", { class: "scale-name" });
  const lead = h("p", { class: "lead" });
  const bars = h("ol", { class: "bars" });
  const note = h("p", { class: "note" });
  const element = h("div", { class: "matrix" },
    controls,
    h("div", { class: "scale" },
      h("label", {}, h("span", { class: "name" }, "Colour"), slider, scaleName),
      legend,
      h("span", { class: "zoom" },
        button("−", board.farther, "Zoom out"),
        button("+", board.closer, "Zoom in"),
        button("Fit", board.fit, "Show the complete matrix"))),
    h("div", { class: "beside" }, board.element, h("aside", {}, lead, bars)),
    note);
  let shown = null; // the content of the board: {grid, labels, totals, masked, lit, pinned, …}
  let run = 0;

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    const { kind, layer, head } = shared.state;
    const grid = await gridOf(shared, kind, layer, head);
    if (mine !== run) return;
    replaceControls(controls, kindChoice(shared), layerChoice(shared), headChoice(shared));
    element.classList.toggle("missing", !grid);
    note.textContent = grid ? noteOn(grid) : LEFT_OUT;
    if (!grid) return;
    const texts = (units) => units.map((unit) => visible(unit.text));
    const labels = { rows: texts(grid.rows), columns: texts(grid.columns) };
    const totals = grid.block === 1 ? totalsOf(grid) : null;
    shown = { grid, labels, totals, masked: maskOf(grid), lit: null, pinned: pinnedIn(grid, shared.state) };
    recolour();
    tellRow();
  }

  function recolour() {
    const { colours, state } = shared;
    slider.value = POWERS.indexOf(state.power);
    slider.setAttribute("aria-valuetext", SCALE_NAMES[state.power]);
    scaleName.textContent = SCALE_NAMES[state.power];
    const ink = inkOf(element);
    Object.assign(shown, { colours, power: state.power, ink, image: imageOf(shown.grid, colours, state.power) });
    board.show(shown, roomIn(element));
    sharpen(legend, Math.min(LEGEND, element.clientWidth), 30);
    drawLegend(legend, colours, state.power, ink);
  }

  // ── hovering and pinning ──────────────────────────────────────────────────────────────────────────────────────────

  function look(cell, event) {
    shown.lit = cell;
    board.repaint();
    if (!shown.pinned || shown.pinned.row < 0) tellRow();
    if (!cell) {
      tip.hide();
      return;
    }
    shared.say(sentence(cell));
    const { grid, labels } = shown;
    const about = step(shared.header, grid, cell.row, visible);
    tip.show(event,
      h("b", {}, isMasked(cell) ? "masked" : exact(weightAt(cell))),
      h("bdi", {}, `${labels.rows[cell.row]} → ${labels.columns[cell.column]}`),
      about ? h("small", {}, about) : null);
  }

  function isMasked({ row, column }) {
    return shown.masked(row, column);
  }

  function weightAt({ row, column }) {
    return shown.grid.values[row * shown.grid.columns.length + column];
  }

  function sentence(cell) {
    const { grid, labels, totals } = shown;
    const pair = `‘${labels.rows[cell.row]}’ → ‘${labels.columns[cell.column]}’`;
    const where = `${grid.kind} ${headName(shared.state.layer, shared.state.head)}`;
    if (isMasked(cell)) return `${pair}: masked (${where})`;
    const total = totals ? `; column total ${exact(totals.columns[cell.column])}` : "";
    return `${pair}: ${exact(weightAt(cell))} (${where})${total}`;
  }

  function pin(cell) {
    shared.choose(pinChange(shown.grid, shown.pinned, cell));
  }

  function go(by) {
    const cell = nextCell(shown.grid, shown.pinned, by);
    if (!cell) return;
    board.reveal(cell);
    shared.say(sentence(cell));
    pin(cell);
  }

  // The list beside the map: the pinned row, or the one under the mouse, or the mean of all rows.
  function tellRow() {
    const { grid, labels, pinned, lit } = shown;
    const row = pinned && pinned.row >= 0 ? pinned.row : lit ? lit.row : -1;
    if (row < 0) {
      const hint = "Mean of all rows. Hover over a cell to see its row; click to pin it.";
      replace(lead, "Most attended to", h("small", {}, hint));
      showBars(bars, grid.columns, heaviest(meanOfRows(grid), MOST_BARS), !shared.state.words, null);
      return;
    }
    const about = step(shared.header, grid, row, visible);
    replace(lead, h("bdi", {}, `‘${labels.rows[row]}’`), " attends to", about ? h("small", {}, about) : null);
    const ranked = heaviest(rowOf(grid, row)).filter(([column]) => !shown.masked(row, column));
    const more = ranked.length > MOST_BARS ? `${ranked.length - MOST_BARS} more` : null;
    showBars(bars, grid.columns, ranked.slice(0, MOST_BARS), !shared.state.words, more);
  }

  return {
    element,
    update,
    resize: () => element.clientWidth && board.resize(roomIn(element)),
    repaint: () => shown && recolour(),
    table: () => matrixTable(shown),
    picture: () => matrixPicture(shared, shown),
  };
}

function roomIn(element) {
  return element.clientWidth > NARROW ? element.clientWidth - ASIDE : element.clientWidth;
}

export function pinnedIn(grid, state) {
  const { query, key } = namesOf(grid.kind);
  const cell = { row: unitWith(grid.rows, state[query]), column: unitWith(grid.columns, state[key]) };
  return cell.row >= 0 || cell.column >= 0 ? cell : null;
}

function meanOfRows(grid) {
  return totalsOf(grid).columns.map((total) => total / grid.rows.length);
}

const WHY = {
  encoder: "This model attends within a window.",
  decoder: "A row cannot attend to what is not yet written.",
  cross: "This model attends within a window.",
};

function noteOn(grid) {
  if (grid.block > 1) {
    const what = `Each cell is the mean of ${grid.block} × ${grid.block} weights`;
    return `${what}, so pieces cannot be merged into words, and begin and end cannot be hidden.`;
  }
  const hatched = grid.bounds.some((bound) => bound !== null) ? `Hatched: masked. ${WHY[grid.kind]} ` : "";
  const empty = grid.hidden ? totalsOf(grid).rows.filter((total) => total === 0).length : 0;
  return hatched + (empty ? `Rows that attend only to hidden pieces are empty: ${empty}.` : "");
}

function matrixTable({ grid, masked }) {
  const cells = (r) => [...rowOf(grid, r)].map((weight, c) => (masked(r, c) ? "" : weight.toFixed(6)));
  return [["", ...grid.columns.map((unit) => unit.text)], ...grid.rows.map((unit, r) => [unit.text, ...cells(r)])];
}
