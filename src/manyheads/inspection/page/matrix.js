// View 3, matrix: one attention as a heat map, with its numbers.

import { heaviest, showBars } from "./bars.js";
import { SCALE_NAMES } from "./colour.js";
import { button, headChoice, kindChoice, layerChoice } from "./controls.js";
import { h, replace, replaceControls } from "./dom.js";
import { cellAt, imageOf, LABEL_FONT, paint, panned, placesOf, totalsOf } from "./heatmap.js";
import { drawLegend } from "./legend.js";
import { visible } from "./letters.js";
import { matrixPicture } from "./matrixpicture.js";
import { clamp, exact } from "./numbers.js";
import { namesOf, POWERS } from "./selection.js";
import { makeTip } from "./tip.js";
import { gridOf, headName, maskOf, rowOf, step, unitWith } from "./weights.js";

const CLOSER = 1.4;
const CLOSEST = 40;
const MOST_BARS = 16;
const ASIDE = 320; // pixels for the list beside the map, where there is room for both
const NARROW = 760;

export function matrixView(shared) {
  const controls = h("div", { class: "controls" });
  const canvas = h("canvas", {});
  const board = h("div", { class: "board", tabindex: 0, role: "application", "aria-label": "Heat map. Arrow keys move to the next weight." }, canvas);
  const tip = makeTip(board);
  const legend = h("canvas", { class: "legend" });
  const slider = h("input", { type: "range", min: 0, max: POWERS.length - 1, step: 1, "aria-label": "Colour scale" });
  const scaleName = h("span", { class: "scale-name" });
  const lead = h("p", { class: "lead" });
  const bars = h("ol", { class: "bars" });
  const note = h("p", { class: "note" });
  const zooming = [button("−", () => zoomBy(1 / CLOSER), "zoom out"), button("+", () => zoomBy(CLOSER), "zoom in"), button("fit", () => zoomBy(0), "all of it")];
  const scale = h("div", { class: "scale" }, h("label", {}, h("span", { class: "name" }, "Colour"), slider, scaleName), legend, h("span", { class: "zoom" }, zooming));
  const element = h("div", { class: "matrix" }, controls, scale, h("div", { class: "beside" }, board, h("aside", {}, lead, bars)), note);
  let drawing = null; // all that one painting needs
  let run = 0;

  // ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    const { kind, layer, head } = shared.state;
    const grid = await gridOf(shared, kind, layer, head);
    if (mine !== run) return;
    replaceControls(controls, kindChoice(shared), layerChoice(shared), headChoice(shared));
    element.classList.toggle("missing", !grid);
    note.textContent = grid ? noteOn(grid) : "The weights of this layer were left out of this page: it would have been too large.";
    if (!grid) return;
    const same = drawing && drawing.grid.rows.length === grid.rows.length && drawing.grid.columns.length === grid.columns.length;
    const labels = { rows: grid.rows.map((unit) => visible(unit.text)), columns: grid.columns.map((unit) => visible(unit.text)) };
    const before = same ? { zoom: drawing.zoom, pan: drawing.pan } : { zoom: 1, pan: [0, 0] };
    drawing = { ...before, grid, labels, totals: grid.block === 1 ? totalsOf(grid) : null, masked: maskOf(grid), lit: null, power: shared.state.power };
    recolour();
    tellRow();
  }

  function recolour() {
    const { power } = shared.state;
    slider.value = POWERS.indexOf(power);
    slider.setAttribute("aria-valuetext", SCALE_NAMES[power]);
    scaleName.textContent = SCALE_NAMES[power];
    Object.assign(drawing, { colours: shared.colours, image: imageOf(drawing.grid, shared.colours, power), ink: inkOf(element) });
    resize();
  }

  function resize() {
    if (!drawing || !element.clientWidth) return;
    const { grid, labels, zoom, ink } = drawing;
    drawing.places = placesOf(grid, labels, roomFor(element), zoom, `${LABEL_FONT}px ${ink.sans}`);
    drawing.pan = panned(drawing.places, drawing.pan);
    sharpen(canvas, drawing.places.width, drawing.places.height);
    sharpen(legend, Math.min(260, element.clientWidth - 24), 30);
    drawLegend(legend, shared.colours, shared.state.power, ink);
    repaint();
  }

  function repaint() {
    const { query, key } = namesOf(drawing.grid.kind);
    const at = { row: unitWith(drawing.grid.rows, shared.state[query]), column: unitWith(drawing.grid.columns, shared.state[key]) };
    drawing.pinned = at.row >= 0 || at.column >= 0 ? at : null;
    paint(canvas.getContext("2d"), drawing);
  }

  // ── zoom and pan ─────────────────────────────────────────────────────────────────────────────────────────────────

  function zoomBy(factor, [x, y] = [board.clientWidth / 2, 0]) {
    if (!drawing) return;
    const { places, pan } = drawing;
    drawing.zoom = factor ? clamp(drawing.zoom * factor, 1, CLOSEST) : 1;
    const inside = [x - places.left, y - places.top].map((at, n) => clamp(at, 0, n ? places.high : places.wide));
    const before = places.cell;
    resize();
    const grown = drawing.places.cell / before;
    drawing.pan = panned(drawing.places, inside.map((at, n) => (at + pan[n]) * grown - at));
    repaint();
  }

  function reveal({ row, column }) {
    const { places, pan } = drawing;
    const into = (at, from, length) => clamp(from, (at + 1) * places.cell - length, at * places.cell);
    drawing.pan = panned(places, [into(column, pan[0], places.wide), into(row, pan[1], places.high)]);
  }

  let dragged = null;
  board.addEventListener("pointerdown", (event) => {
    if (drawing) dragged = { x: event.clientX, y: event.clientY, pan: drawing.pan, moved: false };
  });
  board.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    if (dragged && event.buttons && drawing.zoom > 1) {
      const by = [event.clientX - dragged.x, event.clientY - dragged.y];
      if (dragged.moved || Math.hypot(...by) > 4) {
        if (!dragged.moved) board.setPointerCapture(event.pointerId);
        dragged.moved = true;
        drawing.pan = panned(drawing.places, dragged.pan.map((at, n) => at - by[n]));
      }
    }
    look(cellUnder(event), event);
  });
  board.addEventListener("pointerleave", () => drawing && look(null));
  board.addEventListener("click", (event) => {
    const cell = drawing && !(dragged && dragged.moved) && cellUnder(event);
    if (cell) pin(cell);
  });
  board.addEventListener("wheel", (event) => {
    if (!event.ctrlKey || !drawing) return;
    event.preventDefault();
    zoomBy(event.deltaY < 0 ? CLOSER : 1 / CLOSER, within(event));
  }, { passive: false });
  slider.addEventListener("input", () => shared.choose({ power: POWERS[slider.value] }));

  // ── what is looked at ────────────────────────────────────────────────────────────────────────────────────────────

  function within(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function cellUnder(event) {
    return cellAt(drawing.grid, drawing.places, drawing.pan, ...within(event));
  }

  function look(cell, event = null) {
    drawing.lit = cell;
    repaint();
    if (cell) shared.say(sentence(cell));
    if (cell) showTip(cell, event);
    else tip.hide();
    if (!drawing.pinned || drawing.pinned.row < 0) tellRow();
  }

  function showTip(cell, event) {
    const { grid, labels } = drawing;
    const about = step(shared.header, grid, cell.row, visible);
    tip.show(event,
      h("b", {}, drawing.masked(cell.row, cell.column) ? "not yet written" : exact(weightAt(cell))),
      h("bdi", {}, `${labels.rows[cell.row]} → ${labels.columns[cell.column]}`),
      about ? h("small", {}, about) : null);
  }

  function weightAt({ row, column }) {
    return drawing.grid.values[row * drawing.grid.columns.length + column];
  }

  function sentence(cell) {
    const { grid, labels } = drawing;
    const { layer, head } = shared.state;
    const pair = `‘${labels.rows[cell.row]}’ at ‘${labels.columns[cell.column]}’`;
    if (drawing.masked(cell.row, cell.column)) return `${pair}: masked, it is not yet written (${grid.kind} ${headName(layer, head)})`;
    const total = drawing.totals ? `; column total ${exact(drawing.totals.columns[cell.column])}` : "";
    return `${pair}: ${exact(weightAt(cell))} (${grid.kind} ${headName(layer, head)})${total}`;
  }

  function pin(cell) {
    const { query, key } = namesOf(drawing.grid.kind);
    const at = drawing.pinned;
    const same = at && at.row === cell.row && at.column === cell.column;
    shared.choose({ [query]: same ? null : drawing.grid.rows[cell.row].pieces[0], [key]: same ? null : drawing.grid.columns[cell.column].pieces[0] });
  }

  // The row beside the map: the pinned one, else the one under the mouse.
  function tellRow() {
    const { grid, labels, pinned, lit } = drawing;
    const row = pinned && pinned.row >= 0 ? pinned.row : lit ? lit.row : -1;
    if (row < 0) {
      replace(lead, "What is looked at most", h("small", {}, "the mean of all rows; point at a weight to see its own row, a click keeps it"));
      showBars(bars, grid.columns, heaviest(meanOfRows(grid), MOST_BARS), !shared.state.words, null);
      return;
    }
    const about = step(shared.header, grid, row, visible);
    replace(lead, h("bdi", {}, `‘${labels.rows[row]}’`), " looks at", about ? h("small", {}, about) : null);
    const ranked = heaviest(rowOf(grid, row)).filter(([n]) => !drawing.masked(row, n));
    showBars(bars, grid.columns, ranked.slice(0, MOST_BARS), !shared.state.words, ranked.length > MOST_BARS ? `${ranked.length - MOST_BARS} more` : null);
  }

  board.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (drawing && "+-=0".includes(event.key)) zoomBy({ "-": 1 / CLOSER, 0: 0 }[event.key] ?? CLOSER);
    if (!drawing || !by) return;
    event.preventDefault();
    const { grid } = drawing;
    const from = drawing.pinned || { row: -1, column: -1 };
    const first = from.row < 0 || from.column < 0;
    const cell = {
      row: clamp(first ? Math.max(0, from.row) : from.row + by[0], 0, grid.rows.length - 1),
      column: clamp(first ? Math.max(0, from.column) : from.column + by[1], 0, grid.columns.length - 1),
    };
    reveal(cell);
    shared.say(sentence(cell));
    if (!drawing.pinned || cell.row !== from.row || cell.column !== from.column) pin(cell);
  });

  return {
    element,
    update,
    resize,
    repaint: () => drawing && recolour(),
    table: () => matrixTable(drawing.grid, drawing.masked),
    picture: () => matrixPicture(shared, drawing),
  };
}

function roomFor(element) {
  return element.clientWidth > NARROW ? element.clientWidth - ASIDE : element.clientWidth;
}

function meanOfRows(grid) {
  return totalsOf(grid).columns.map((total) => total / grid.rows.length);
}

function noteOn(grid) {
  if (grid.block > 1) return `Each cell is the mean of ${grid.block} × ${grid.block} weights; they can be neither merged into words nor freed of begin and end.`;
  const hatched = grid.kind === "decoder" ? "Hatched: masked. A row may not look at what is not yet written. " : "";
  const empty = grid.hidden ? [...totalsOf(grid).rows].filter((total) => total === 0).length : 0;
  return hatched + (empty ? `Rows that looked at nothing but what is hidden are empty: ${empty}.` : "");
}

function matrixTable(grid, masked) {
  const cells = (r) => [...rowOf(grid, r)].map((weight, c) => (masked(r, c) ? "" : weight.toFixed(6)));
  return [["", ...grid.columns.map((unit) => unit.text)], ...grid.rows.map((unit, r) => [unit.text, ...cells(r)])];
}

// A canvas has as many pixels as the screen has.
export function sharpen(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}

export function inkOf(element) {
  const style = getComputedStyle(element);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(["ink", "soft", "faint", "line", "card", "mark", "veil", "sans"].map((name) => [name, read(name)]));
}
