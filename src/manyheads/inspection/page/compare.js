// View 12, compare: two inspections side by side with one selection for both, and the difference B − A.

import { inkOf, makeBoard, sharpen } from "./board.js";
import { sideCards } from "./comparecards.js";
import { comparePicture, NAMES_OF_SIDES } from "./comparepicture.js";
import { button, headChoice, kindChoice, layerChoice } from "./controls.js";
import { differenceOf, distances, placesIn } from "./difference.js";
import { active, focusNamed, h, nameOf, replace, replaceControls } from "./dom.js";
import { distanceBoards } from "./elsewhere.js";
import { imageOf } from "./heatmap.js";
import { drawLegend, drawSignedLegend } from "./legend.js";
import { visible } from "./letters.js";
import { clamp, exact } from "./numbers.js";
import { namesOf } from "./selection.js";
import { makeTip } from "./tip.js";
import { gridOf, headName, maskOf, unitWith } from "./weights.js";

const SIDES = ["a", "b", "both"];
const THREE_ABREAST = 860; // pixels: below this width, the three maps are stacked
const BETWEEN_SIDES = 18;
const LEGEND_WIDTH = 220;
const ALONE = "This page holds one inspection. ‘manyheads inspect … --compare’ makes a page that holds two.";
const ASK = "Keep this result, then change the sentence, choose another word or switch off heads, to see both side by side.";
const KEPT = "This result is kept. Now change the sentence, choose another word or switch off heads.";
const EQUAL = "Their attention is the same: no two weights differ by more than 16-bit rounding.";
const TINY = 0.0005;

export function compareView(shared) {
  const { other } = shared;
  const lead = h("p", { class: "lead" });
  const keep = button("Keep this result", () => other.keep(shared.header), "Later results are compared with it");
  const drop = button("Discard kept result", () => other.keep(null));
  const cards = h("div", { class: "cards" });
  const controls = h("div", { class: "controls" });
  const boards = Object.fromEntries(SIDES.map((side) => [side, makeBoard({
    look: (cell, event) => look(side, cell, event), pin: (cell) => pin(side, cell), go: (by) => go(side, by),
  })]));
  const legends = Object.fromEntries(SIDES.map((side) => [side, h("canvas", { class: "legend" })]));
  const stageOf = (side) => h("section", { class: "side", "aria-label": NAMES_OF_SIDES[side] },
    h("h3", {}, NAMES_OF_SIDES[side]), boards[side].element, side === "a" ? null : legends[side]);
  const stages = Object.fromEntries(SIDES.map((side) => [side, stageOf(side)]));
  const abreast = h("div", { class: "abreast" }, SIDES.map((side) => stages[side]));
  const note = h("p", { class: "note" });
  const apart = h("div", { class: "apart" });
  const choosers = h("div", { class: "both" }, controls, abreast, note, apart);
  const ways = h("div", { class: "controls" }, other.keeps ? [keep, drop] : []);
  const element = h("div", { class: "compare" }, lead, ways, cards, choosers);
  const tip = makeTip(abreast);
  let shown = null; // {pair, sides: {a, b, both: content of a board}, common, own}
  let run = 0;

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    const pair = other.pair(shared.header, shared.planes);
    showWays(pair);
    if (!pair) {
      shown = null;
      return;
    }
    replace(cards, sideCards(pair));
    replaceControls(controls, kindChoice(shared), layerChoice(shared), headChoice(shared));
    const [a, b] = await Promise.all(pair.map(gridOfSide));
    if (mine !== run) return;
    show(pair, a, b);
    const found = await distances(...pair, shared.state);
    if (mine !== run) return;
    const used = apart.contains(active(apart)) && nameOf(active(apart));
    replace(apart, distanceBoards(found, shared));
    if (used) focusNamed(apart, used);
  }

  function showWays(pair) {
    const kept = other.kept;
    lead.textContent = pair ? "" : other.keeps ? (kept ? KEPT : ASK) : ALONE;
    lead.hidden = Boolean(pair);
    keep.hidden = kept === shared.header;
    drop.hidden = !kept;
    for (const part of [cards, choosers]) part.hidden = !pair;
  }

  async function gridOfSide(side) {
    const { kind, layer, head } = shared.state;
    if (head !== null && head >= side.header.model.heads) return null;
    return gridOf({ ...side, state: shared.state }, kind, layer, head);
  }

  function show(pair, a, b) {
    const own = pair[0].header === shared.header ? "a" : "b";
    const comparable = a && b && a.block === 1 && b.block === 1;
    const common = comparable ? differenceOf(a, b) : null;
    const grids = { a, b, both: common && common.grid.values.length ? common.grid : null };
    shown = { pair, common, own, grids, sides: {}, most: common ? common.grid.most : 0 };
    for (const side of SIDES) {
      const grid = grids[side];
      stages[side].hidden = !grid;
      if (grid) shown.sides[side] = { grid, labels: labelsOf(grid), totals: null, masked: maskOf(grid) };
    }
    note.textContent = noteOnPair(shown, shared.state);
    shown.at = pinnedOf(shown, shared.state);
    recolour();
    if (shown.at) shared.say(sentence(shown.at));
  }

  function recolour() {
    const { colours, state } = shared;
    const ink = inkOf(element);
    for (const one of Object.values(shown.sides)) {
      Object.assign(one, { colours, power: state.power, ink, image: imageOf(one.grid, colours, state.power) });
    }
    lightUp();
    resize();
    sharpen(legends.b, LEGEND_WIDTH, 30);
    drawLegend(legends.b, colours, state.power, ink);
    legends.both.hidden = shown.most < TINY;
    sharpen(legends.both, LEGEND_WIDTH, 30);
    drawSignedLegend(legends.both, colours, shown.most, ink);
  }

  function resize() {
    const width = element.clientWidth;
    const count = Object.keys(shown.sides).length;
    const room = width > THREE_ABREAST ? (width - BETWEEN_SIDES * (count - 1)) / count : width;
    for (const [side, one] of Object.entries(shown.sides)) boards[side].show(one, Math.floor(room));
  }

  // Marks the pinned cell and the cell under the mouse in all boards.
  function lightUp(lit = null) {
    const [pins, lights] = [placesOfCell(shown.at), placesOfCell(lit)];
    for (const [side, one] of Object.entries(shown.sides)) [one.pinned, one.lit] = [pins[side], lights[side]];
  }

  function placesOfCell(place) {
    if (!place) return { a: null, b: null, both: null };
    if (shown.common) return placesIn(shown.common, place.cell, place.side);
    return { a: null, b: null, both: null, [place.side]: place.cell };
  }

  // ── hovering and pinning ──────────────────────────────────────────────────────────────────────────────────────────

  function look(side, cell, event) {
    lightUp(cell && { side, cell });
    for (const one of Object.keys(shown.sides)) boards[one].repaint();
    if (!cell) {
      tip.hide();
      return;
    }
    const place = { side, cell };
    shared.say(sentence(place));
    const { a, b, change } = numbersAt(place);
    tip.show(event,
      h("bdi", {}, pairName(place)),
      change === null ? null : h("b", {}, withSign(change)),
      h("small", {}, bothWeights(a, b).join("   ")));
  }

  // The weights of a cell, null for a side without it; their difference if both sides have it.
  function numbersAt(place) {
    const places = placesOfCell(place);
    const value = (side) => {
      const [one, cell] = [shown.sides[side], places[side]];
      if (!one || !cell || one.masked(cell.row, cell.column)) return null;
      return one.grid.values[cell.row * one.grid.columns.length + cell.column];
    };
    const [a, b] = [value("a"), value("b")];
    return { a, b, change: a === null || b === null ? null : b - a };
  }

  function pairName({ side, cell }) {
    const { labels } = shown.sides[side];
    return `‘${labels.rows[cell.row]}’ → ‘${labels.columns[cell.column]}’`;
  }

  function sentence(place) {
    const { a, b, change } = numbersAt(place);
    const where = `${shared.state.kind} ${headName(shared.state.layer, shared.state.head)}`;
    if (a === null && b === null) return `${pairName(place)}: masked (${where})`;
    const apart = change === null ? "only on one side" : `difference ${withSign(change)}`;
    return `${pairName(place)}: ${bothWeights(a, b).join(", ")}, ${apart} (${where})`;
  }

  // A cell that only the other side has cannot be part of the address: it is kept here until the selection changes.
  function pin(side, cell) {
    const { query, key } = namesOf(shared.state.kind);
    const now = placesOfCell(shown.at)[side];
    const same = now && now.row === cell.row && now.column === cell.column;
    const mine = placesOfCell({ side, cell })[shown.own];
    const { grid } = shown.sides[shown.own];
    if (same) shared.choose({ [query]: null, [key]: null });
    else if (mine) shared.choose({ [query]: grid.rows[mine.row].pieces[0], [key]: grid.columns[mine.column].pieces[0] });
    else {
      shown.at = { side, cell };
      lightUp();
      for (const one of Object.keys(shown.sides)) boards[one].repaint();
      shared.say(sentence(shown.at));
    }
  }

  function go(side, [down, right]) {
    const { grid } = shown.sides[side];
    const from = placesOfCell(shown.at)[side];
    const cell = {
      row: clamp(from ? from.row + down : 0, 0, grid.rows.length - 1),
      column: clamp(from ? from.column + right : 0, 0, grid.columns.length - 1),
    };
    if (from && cell.row === from.row && cell.column === from.column) return;
    boards[side].reveal(cell);
    pin(side, cell);
  }

  return {
    element,
    update,
    resize: () => shown && element.clientWidth && resize(),
    repaint: () => shown && update(),
    table: () => (shown ? compareTable(shown, shared.state) : [["A", "B"]]),
    picture: () => comparePicture(shared, shown),
  };
}

function labelsOf(grid) {
  const texts = (units) => units.map((unit) => visible(unit.text));
  return { rows: texts(grid.rows), columns: texts(grid.columns) };
}

function bothWeights(a, b) {
  return [["A", a], ["B", b]].filter(([, weight]) => weight !== null).map(([name, weight]) => `${name} ${exact(weight)}`);
}

function withSign(value) {
  return value < 0 ? `−${exact(-value)}` : `+${exact(value)}`;
}

function pinnedOf({ grids, own }, state) {
  const grid = grids[own];
  const { query, key } = namesOf(state.kind);
  const cell = grid && { row: unitWith(grid.rows, state[query]), column: unitWith(grid.columns, state[key]) };
  return cell && cell.row >= 0 && cell.column >= 0 ? { side: own, cell } : null;
}

// Says what cannot be compared, and why.
function noteOnPair({ pair, common, grids, most }, state) {
  const lacking = ["a", "b"].filter((side) => !grids[side]).map((side) => side.toUpperCase());
  if (lacking.length) return `${lacking.join(" and ")}: no such layer or head, or its weights were left out of this page.`;
  if (!common) return "One side has only the means of blocks on this page, so individual weights cannot be compared.";
  const { rows, columns } = common;
  const counts = [[rows, grids.a.rows, grids.b.rows, "rows"], [columns, grids.a.columns, grids.b.columns, "columns"]];
  const some = counts.filter(([both, a, b]) => both.length < Math.max(a.length, b.length));
  if (!some.length) return most < TINY ? EQUAL : "";
  const told = some.map(([both, a, b, name]) => `${both.length} of ${Math.max(a.length, b.length)} ${name}`);
  const sources = pair.map((side) => side.header.source);
  const cut = !state.words && sources[0].text === sources[1].text && sources[0].pieces.length !== sources[1].pieces.length;
  const hint = cut ? " The models split words into different pieces; shown as words, they have more in common." : "";
  return `The difference covers only the ${state.words ? "words" : "pieces"} that both sides have: ${told.join(" and ")}.${hint}`;
}

function compareTable({ sides, common }, state) {
  const head = ["kind", "layer", "head", "query", "key", "A", "B", "B − A"];
  if (!common) return [head];
  const where = [state.kind, state.layer, state.head === null ? "mean" : state.head];
  const { grid } = common;
  const at = (side, row, column) => sides[side].grid.values[row * sides[side].grid.columns.length + column];
  const masked = maskOf(grid);
  return [head, ...common.rows.flatMap(([ra, rb], r) => common.columns.flatMap(([ca, cb], c) => {
    if (masked(r, c)) return [];
    const numbers = [at("a", ra, ca), at("b", rb, cb), grid.values[r * grid.columns.length + c]];
    return [[...where, grid.rows[r].text, grid.columns[c].text, ...numbers.map((value) => Number(value.toFixed(6)))]];
  }))];
}
