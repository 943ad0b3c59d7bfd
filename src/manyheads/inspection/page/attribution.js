// View 9, attribution: how much each output word depends on the source and on the output so far, and how far the heads
// agree with that.

import { agreementBlock, agreementOf } from "./agreement.js";
import { heaviest } from "./bars.js";
import { inkOf, makeBoard, sharpen } from "./board.js";
import { nextCell, pinChange } from "./cells.js";
import { choice } from "./controls.js";
import { h, replace, replaceControls } from "./dom.js";
import { imageOf, totalsOf } from "./heatmap.js";
import { drawLegend, drawSignedLegend } from "./legend.js";
import { spelt, visible } from "./letters.js";
import { gridPicture } from "./matrixpicture.js";
import { attributionGrid, attributionsOf, meaningOfMethod, METHODS } from "./methods.js";
import { isLone, writes } from "./models.js";
import { clamp, signed } from "./numbers.js";
import { textWidth } from "./ruler.js";
import { sheet } from "./saving.js";
import { namesOf } from "./selection.js";
import { makeTip } from "./tip.js";
import { isAtOnce } from "./rows.js";
import { maskOf, rowOf, unitWith } from "./weights.js";

const MOST_OWED = 12;
const [ROOMY_VIEW, LEGEND_WIDE] = [760, 260];
const NOT_WHY =
  "Attention is where a model looked, not why it wrote what it wrote; "
  + "these methods measure ‘why’ in different ways.";
const NOT_WORTH = "Attention is where a row looked, not how much of that remains in the output.";
const OTHERS = "‘manyheads inspect … --attribution leave-one-out’ adds that method to this page";
const NONE = "This page has no attributions.";
const HIDDEN_DEBTS = "Begin and end are hidden, and so is what is attributed to them.";
const OVERS = { source: "source", target: "output so far" };
const OVERS_OF_PLACES = { source: "source", target: "decoder input" };

function oversOf(header) {
  return isAtOnce(header) ? OVERS_OF_PLACES : OVERS;
}

// The side that output is attributed to. A single text leaves no choice.
export function nameOfOver(header, over) {
  return isLone(header) ? "the text" : oversOf(header)[over];
}

export function attributionView(shared) {
  const controls = h("div", { class: "controls" });
  const meaning = h("p", { class: "meaning" });
  const legend = h("canvas", { class: "legend" });
  const board = makeBoard({ look, pin, go });
  const tip = makeTip(board.element);
  const lead = h("p", { class: "lead" });
  const bars = h("ol", { class: "bars" });
  const agreed = h("section", { class: "agreed" });
  const note = h("p", { class: "note" });
  const element = h("div", { class: "attribution" },
    controls, meaning,
    h("div", { class: "scale" }, legend),
    h("div", { class: "beside" }, board.element, h("aside", {}, lead, bars)),
    agreed, note, h("p", { class: "note" }, writes(shared.header) ? NOT_WHY : NOT_WORTH));
  let shown = null; // {found, grid, labels, masked, lit, pinned, …}

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  function update() {
    const { state, asking } = shared;
    const there = attributionsOf(shared);
    const method = there[state.method] || asking ? state.method : Object.keys(there)[0];
    const found = there[method];
    replaceControls(controls, debtChoice(shared));
    meaning.textContent = method ? meaningOfMethod(shared.header, method) : "";
    element.classList.toggle("missing", !found);
    showNote(found, there);
    if (found) {
      show(found);
      return;
    }
    shown = null;
    const refused = refusal() && asking.attributions.asked === method;
    if (asking && !asking.busy && !refused) setTimeout(() => asking.attribute(method, "attribution"));
  }

  const refusal = () => {
    const { asking } = shared;
    return asking && asking.refusal && asking.refusal.place === "attribution" ? asking.refusal.sentence : null;
  };

  function showNote(found, there) {
    const { asking, header, state } = shared;
    const sentences = [
      refusal(),
      found && found.gap !== null ? gapOf(found) : null,
      found && state.hide ? HIDDEN_DEBTS : null,
      !asking && !Object.keys(there).length ? NONE : null,
      !asking && writes(header) && Object.keys(there).length < Object.keys(METHODS).length ? others(header) : null,
      asking && !found && !refusal() ? "Computing …" : null,
    ];
    note.classList.toggle("warning", Boolean(refusal()));
    note.textContent = sentences.filter(Boolean).join(" ");
  }

  function show(found) {
    const { state } = shared;
    const grid = attributionGrid(shared, found, state.over);
    const texts = (units) => units.map((unit) => visible(unit.text));
    const labels = { rows: texts(grid.rows), columns: texts(grid.columns) };
    const { query, key } = namesOf(grid.kind);
    const pinned = { row: unitWith(grid.rows, state[query]), column: unitWith(grid.columns, state[key]) };
    const any = pinned.row >= 0 || pinned.column >= 0;
    shown = { found, grid, labels, masked: maskOf(grid), totals: null, lit: null, pinned: any ? pinned : null };
    repaint();
    tellRow();
    replace(agreed, agreementBlock(shared, found));
    shared.say(`${METHODS[found.method]}: ${agreementOf(shared, found)}`);
  }

  function repaint() {
    if (!shown) return;
    const [{ colours }, ink] = [shared, inkOf(element)];
    Object.assign(shown, { colours, power: 1, ink, image: imageOf(shown.grid, colours, 1) });
    board.show(shown, roomIn());
    sharpen(legend, Math.min(LEGEND_WIDE, element.clientWidth), 30);
    if (shown.grid.most === undefined) drawLegend(legend, colours, 1, ink);
    else drawSignedLegend(legend, colours, shown.grid.most, ink);
  }

  const roomIn = () => (element.clientWidth > ROOMY_VIEW ? element.clientWidth - 340 : element.clientWidth);

  // ── hovering and pinning ──────────────────────────────────────────────────────────────────────────────────────────

  const at = ({ row, column }) => shown.grid.values[row * shown.grid.columns.length + column];
  const isMasked = ({ row, column }) => shown.masked(row, column);

  function sentence(cell) {
    const { labels, found } = shown;
    const pair = `‘${labels.rows[cell.row]}’ attributed to ‘${labels.columns[cell.column]}’`;
    if (isMasked(cell)) return `${pair}: none, not yet written`;
    return `${pair}: ${signed(at(cell))}${found.signed ? " nats" : ""} (${METHODS[found.method]})`;
  }

  function look(cell, event) {
    shown.lit = cell;
    board.repaint();
    if (!shown.pinned || shown.pinned.row < 0) tellRow();
    if (!cell) {
      tip.hide();
      return;
    }
    shared.say(sentence(cell));
    const { labels } = shown;
    tip.show(event, h("b", {}, isMasked(cell) ? "not yet written" : signed(at(cell))),
      h("bdi", {}, `${labels.rows[cell.row]} ← ${labels.columns[cell.column]}`));
  }

  function pin(cell) {
    shared.choose(pinChange(shown.grid, shown.pinned, cell));
    if (shown) shared.say(sentence(cell));
  }

  function go(by) {
    const cell = nextCell(shown.grid, shown.pinned, by);
    if (!cell) return;
    board.reveal(cell);
    pin(cell);
  }

  // Lists the pinned row, or the one under the mouse, or the totals of all rows.
  function tellRow() {
    const { grid, labels, pinned, lit } = shown;
    const row = pinned && pinned.row >= 0 ? pinned.row : lit ? lit.row : -1;
    const values = row < 0 ? totalsOf({ ...grid, values: grid.values.map(Math.abs) }).columns : rowOf(grid, row);
    const seen = heaviest(values.map(Math.abs)).filter(([n]) => row < 0 || !shown.masked(row, n));
    const scale = Math.max(...seen.map(([, size]) => size), 1e-12);
    const hint = "Absolute values summed over all rows. Hover over a cell to see its row; click to pin it.";
    if (row < 0) replace(lead, "Largest attributions overall", h("small", {}, hint));
    else replace(lead, h("bdi", {}, `‘${labels.rows[row]}’`), " is attributed to", h("small", {}, partsOf(row)));
    replace(bars, seen.slice(0, MOST_OWED).map(([n]) => owed(grid.columns[n].text, values[n], scale)));
  }

  function partsOf(row) {
    const { found, grid } = shown;
    if (!found.signed) return "shares of 1";
    const sum = rowOf(grid, row).reduce((all, value) => all + value, 0);
    return `${signed(sum)} nats in total`;
  }

  function owed(text, value, scale) {
    const bar = h("span", { class: value < 0 ? "bar against" : "bar" });
    bar.style.setProperty("--share", Math.abs(value) / scale);
    const name = h("bdi", { class: "label" }, spelt(text, !shared.state.words));
    return h("li", {}, name, bar, h("span", { class: "number" }, signed(value)));
  }

  return {
    element,
    update,
    resize: () => shown && element.clientWidth && board.resize(roomIn()),
    repaint,
    table: () => (shown ? debtTable(shown) : [["written"]]),
    picture: () => (shown ? debtPicture(shared, shown) : sheet(420, 60, NONE)),
  };
}

function others(header) {
  return `${OTHERS}${isLone(header) ? "" : "; the page of ‘manyheads serve’ has all methods"}.`;
}

// Choosers for the methods that are present or can be requested, and for the side that is attributed to.
export function debtChoice(shared) {
  const { header, state, choose, asking } = shared;
  const methods = Object.entries(METHODS).filter(([method]) => asking || attributionsOf(shared)[method]);
  return [
    ...(methods.length ? [choice("Method", methods, state.method, (method) => choose({ method }))] : []),
    isLone(header) ? null : choice("Attributed to", Object.entries(oversOf(header)), state.over, (over) => choose({ over })),
  ];
}

function debtPicture({ header, state }, { found, grid, labels, masked }) {
  const unit = found.signed ? `nats, full colour ±${signed(grid.most)}` : "shares of 1";
  const what = `${METHODS[found.method]}, attributed to ${nameOfOver(header, state.over)}; ${unit}`;
  const caption = `${visible(header.model.name || "model")}: ${what}`;
  const cell = clamp(900 / grid.columns.length, 4, 44);
  const widest = (texts) => Math.max(0, ...texts.map((text) => textWidth(text, "13px sans-serif"))) * 1.1;
  const [left, top] = [widest(labels.rows) + 26, widest(labels.columns) * 0.78 + 26];
  const wide = Math.max(left + cell * grid.columns.length + top, textWidth(caption, "11px sans-serif") * 1.15 + 40);
  const picture = sheet(Math.ceil(wide), Math.ceil(top + cell * grid.rows.length + 48), caption);
  picture.append(gridPicture({ grid, labels, masked }, cell, 1, [left, top]));
  return picture;
}

function gapOf({ gap, whole }) {
  const largest = Math.max(...whole.map(Math.abs));
  return `Attributions add up to the total change of each row (${signed(largest)} nats at most), to within ${signed(gap)} nats.`;
}

function debtTable({ grid, masked }) {
  const cells = (row) => [...rowOf(grid, row)].map((value, n) => (masked(row, n) ? "" : Number(value.toFixed(6))));
  const names = ["written", ...grid.columns.map((unit) => unit.text)];
  return [names, ...grid.rows.map((unit, row) => [unit.text, ...cells(row)])];
}
