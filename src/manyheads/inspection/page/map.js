// View 4, model map: every head as a thumbnail, with a measure of what kind of head it is.

import { css } from "./colour.js";
import { choice } from "./controls.js";
import { active, h, replace, replaceControls, rove } from "./dom.js";
import { fitBlocks, headBlock, nearest } from "./headblocks.js";
import { mapPicture } from "./mappicture.js";
import { allHeads, inOrder, meaningOf, MEASURES, shareOf } from "./measures.js";
import { kindsIn } from "./models.js";
import { clamp, exact } from "./numbers.js";
import { thumbnail, thumbnailGrids } from "./thumbnails.js";
import { makeTip } from "./tip.js";
import { headName } from "./weights.js";

const TINT = 0.55; // of full colour, behind the largest number, so that it stays readable
const ORDER_NAMES = [["layers", "layer by layer"], ["most", "highest first"], ["least", "lowest first"]];
const OF_PIECES = "The numbers always refer to pieces and include begin and end.";
const SHADES = "Shades grow with the square root of the weight.";
const BLOCKS = "Where there are more weights than pixels, each pixel shows the largest of its block.";
const HOW = "Click a head to open it in the matrix, Shift-click to open it in the lines.";

export function mapView(shared) {
  const controls = h("div", { class: "controls" });
  const meaning = h("p", { class: "meaning" });
  const note = h("p", { class: "note" });
  const board = h("div", { class: "blocks" });
  const element = h("div", { class: "map" }, controls, meaning, board, note);
  const tip = makeTip(element);
  const heads = allHeads(shared.header);
  const buttons = new Map(heads.map((head) => [head, buttonOf(head)]));
  const grids = new Map();
  let [drawn, laid, run] = ["", "", 0];

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  // Thumbnails are redrawn only if they would differ, numbers and marks always.
  async function update() {
    const mine = (run += 1);
    const { words, hide, measure, order } = shared.state;
    replaceControls(controls, choosers());
    meaning.textContent = meaningOf(measure);
    if (laid !== `${measure} ${order}`) lay();
    laid = `${measure} ${order}`;
    showNumbers();
    mark();
    const look = `${words} ${hide}`;
    if (drawn === look) return;
    await Promise.all(kindsIn(shared.header).flatMap((kind) => layersOf(kind).map((layer) => drawLayer(kind, layer, mine))));
    if (mine !== run) return;
    drawn = look;
    note.textContent = noteOnMap();
  }

  async function drawLayer(kind, layer, mine) {
    const found = await thumbnailGrids(shared, kind, layer);
    if (mine !== run) return;
    heads.filter((one) => one.kind === kind && one.layer === layer).forEach((one) => {
      grids.set(one, found[one.head]);
      showThumbnail(one);
    });
  }

  function showThumbnail(one) {
    const grid = grids.get(one);
    replace(buttons.get(one).firstChild, grid ? thumbnail(grid, shared.colours) : null);
  }

  function buttonOf(one) {
    const label = `${one.kind}, layer ${one.layer}, head ${one.head}${one.off ? ", switched off" : ""}`;
    const look = { type: "button", class: one.off ? "thumb off" : "thumb", "aria-label": label, tabindex: -1 };
    const acts = {
      click: (event) => open(one, event.shiftKey), focus: () => tell(one),
      pointermove: (event) => point(one, event), pointerleave: tip.hide,
    };
    return h("button", { ...look, ...acts },
      h("span", { class: "face" }), h("span", { class: "who" }, `${one.kind} ${one.layer}·${one.head}`),
      h("span", { class: "value" }), h("span", { class: "bar" }));
  }

  function showNumbers() {
    const { measure } = shared.state;
    const share = shareOf(heads, measure);
    for (const [one, button] of buttons) {
      const [, , value, bar] = button.children;
      const known = measure in one.values;
      value.textContent = known ? one.values[measure].toFixed(2) : "–";
      bar.style.setProperty("--share", clamp(share(one), 0, 1));
      button.style.setProperty("--tint", known ? css(shared.colours.weight(TINT * share(one))) : "transparent");
      button.style.setProperty("--on", known ? shared.colours.onWeight(TINT * share(one)) : "inherit");
    }
  }

  // Three blocks with layers downwards and heads to the right, or one block with all heads in order of the measure.
  function lay() {
    const { measure, order } = shared.state;
    const used = element.contains(active(element)) ? active(element) : null;
    element.classList.toggle("ranked", order !== "layers");
    if (order === "layers") replace(board, kindsIn(shared.header).map(blockOf));
    else replace(board, h("div", { class: "in-rank" }, inOrder(heads, measure, order).map((one) => buttons.get(one))));
    fit();
    if (used && element.contains(used)) used.focus();
  }

  function blockOf(kind) {
    const at = (layer, head) => heads.find((one) => one.kind === kind && one.layer === layer && one.head === head);
    return headBlock(shared.header, kind, (layer, head) => buttons.get(at(layer, head)));
  }

  function fit() {
    fitBlocks(element, shared.header.model.heads, undefined, kindsIn(shared.header).length);
  }

  function mark() {
    const { kind, layer, head } = shared.state;
    for (const [one, button] of buttons) {
      const here = one.kind === kind && one.layer === layer && one.head === head;
      if (here) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    board.querySelectorAll("[data-place]").forEach((label) =>
      label.classList.toggle("current", head === null && label.dataset.place === `${kind} ${layer}`));
    const all = [...board.querySelectorAll(".thumb")];
    const focused = all.indexOf(active(element));
    const current = all.findIndex((button) => button.hasAttribute("aria-current"));
    rove(all, focused >= 0 ? focused : Math.max(0, current));
  }

  function choosers() {
    const { state, choose } = shared;
    const measures = MEASURES.map((name) => [name, name, meaningOf(name)]);
    return [
      choice("Coloured by", measures, state.measure, (measure) => choose({ measure })),
      choice("Order", ORDER_NAMES, state.order, (order) => choose({ order })),
    ];
  }

  function noteOnMap() {
    const known = [...grids.values()].filter(Boolean);
    const missing = heads.length - known.length;
    return [HOW, SHADES, known.some((grid) => grid.pooled) ? BLOCKS : "", OF_PIECES,
      heads.some((one) => one.off) ? "Crossed out: switched off." : "",
      missing ? `Left out of this page to limit its size: the weights of ${missing} heads.` : ""].filter(Boolean).join(" ");
  }

  function layersOf(kind) {
    return [...Array(shared.header.model.layers[kind]).keys()];
  }

  // ── hovering and opening ──────────────────────────────────────────────────────────────────────────────────────────

  function sentenceOn(one) {
    const numbers = Object.entries(one.values).map(([name, value]) => `${name} ${exact(value)}`);
    return `${one.kind} ${headName(one.layer, one.head)}${one.off ? ", switched off" : ""}: ${numbers.join(", ")}`;
  }

  function tell(one) {
    rove([...buttons.values()], [...buttons.keys()].indexOf(one));
    shared.say(sentenceOn(one));
  }

  function point(one, event) {
    const chosen = (name) => (name === shared.state.measure ? { class: "chosen" } : {});
    const rows = Object.entries(one.values).map(([name, value]) =>
      h("div", chosen(name), h("dt", {}, name), h("dd", {}, exact(value))));
    tip.show(event,
      h("b", {}, `${one.kind} ${headName(one.layer, one.head)}`),
      one.off ? h("small", {}, "switched off") : null, h("dl", {}, rows));
    shared.say(sentenceOn(one));
  }

  function open({ kind, layer, head }, asLines) {
    shared.choose({ view: asLines ? "lines" : "matrix", kind, layer, head, ...(asLines ? { three: false } : {}) });
  }

  // ── keys, files ───────────────────────────────────────────────────────────────────────────────────────────────────

  board.addEventListener("keydown", (event) => {
    const button = event.target.closest(".thumb");
    if (!button || event.ctrlKey || event.metaKey || event.altKey) return;
    const one = [...buttons.keys()].find((head) => buttons.get(head) === button);
    if (event.key === "l") open(one, true);
    const next = nearest([...board.querySelectorAll(".thumb")], button, event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });

  return {
    element,
    update,
    resize: fit,
    repaint: () => {
      showNumbers();
      heads.forEach(showThumbnail);
    },
    table: () => mapTable(heads),
    picture: () => mapPicture(shared, heads, grids),
  };
}

function mapTable(heads) {
  const value = (one, name) => (name in one.values ? one.values[name].toFixed(6) : "");
  const row = (one) => [one.kind, one.layer, one.head, ...MEASURES.map((name) => value(one, name)), Number(one.off)];
  return [["kind", "layer", "head", ...MEASURES, "off"], ...heads.map(row)];
}
