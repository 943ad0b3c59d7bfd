// View 11, flow: the complete computation, step by step, for this sentence and with this model's own numbers. It
// follows the vector of one word from the embedding table to the word that is written.

import { computed } from "./attention.js";
import { inkOf } from "./board.js";
import { css } from "./colour.js";
import { button, headChoice, layerChoice } from "./controls.js";
import { active, h, replace, replaceControls, rove } from "./dom.js";
import { boxesOf, changeBy, figureOf } from "./flowfigure.js";
import { flowPicture } from "./flowpicture.js";
import { CELLS, handedOn, rowsOfStage } from "./flowrows.js";
import { placeOf, stagesOf } from "./flowstages.js";
import { wordsOf } from "./flowwords.js";
import { spelt, visible } from "./letters.js";
import { isLone, sidesIn, writes } from "./models.js";
import { clamp, signed } from "./numbers.js";
import { makePlayer } from "./player.js";
import { firstRow, readPieces } from "./rows.js";
import { sheet } from "./saving.js";
import { greatest, strip } from "./strips.js";
import { makeTip } from "./tip.js";
import { sidesOf } from "./weights.js";

const LOOKS = ["project", "scores", "softmax", "mix", "join"]; // stages that show single heads
const GONE = "The numbers for this view were left out of this page to limit its size.";
const NAMES_OF_TOWERS = { encoder: "Encoder", decoder: "Decoder", cross: "Decoder" };

export function flowView(shared) {
  return shared.header.flow ? walkView(shared) : missingView();
}

function missingView() {
  const nothing = () => {};
  const element = h("div", { class: "flow" }, h("p", { class: "note" }, GONE));
  return { element, update: nothing, resize: nothing, repaint: nothing, table: () => [[GONE]], picture: () => sheet(560, 60, GONE) };
}

function walkView(shared) {
  const { header } = shared;
  const stages = stagesOf(header);
  const figure = h("div", { class: "figure" });
  const counter = h("span", { class: "aside" });
  const play = button("Play", () => player.toggle());
  const transport = h("div", { class: "controls" },
    button("←", () => move(-1), "Previous step"), play, button("→", () => move(1), "Next step"), counter);
  const title = h("h3", {});
  const sentence = h("p", { class: "telling" });
  const formula = h("p", { class: "formula-line" });
  const steps = h("div", { class: "substeps", role: "group", "aria-label": "Steps" });
  const choosers = h("div", { class: "controls" });
  const words = h("div", { class: "queries", role: "group", "aria-label": "Words" });
  const rows = h("div", { class: "rows" });
  const everyone = h("div", { class: "everyone" });
  const main = h("div", { class: "walk" }, transport, words, title, steps, sentence, formula, choosers, rows, everyone);
  const element = h("div", { class: isLone(header) ? "flow lone" : "flow" }, figure, main);
  const tip = makeTip(element);
  let shown = null; // {stage, words, rows, piece}
  let run = 0;

  const now = () => placeOf(stages, shared.state);
  const stage = () => stages[now()];
  const go = (n) => chooseStage(stages[clamp(n, 0, stages.length - 1)]);
  const player = makePlayer({
    now: () => now() + 1, go: (n) => go(n - 1), last: () => stages.length, shown: () => element.isConnected,
    turned: (playing) => (play.textContent = playing ? "Pause" : "Play"),
  });

  function chooseStage({ name, kind, layer }) {
    shared.choose({ stage: name, kind, layer: layer === null ? shared.state.layer : layer });
  }

  // ── which word ────────────────────────────────────────────────────────────────────────────────────────────────────

  // A row of the target is identified by the piece that it writes.
  const firstOf = (side) => (side === "source" ? 0 : firstRow(header));
  const pieceOf = (side) => clamp(shared.state[side] ?? firstOf(side), firstOf(side), header[side].pieces.length - 1);
  const rowOfSide = (side) => pieceOf(side) - firstOf(side);
  const chooseWord = (side, row) => shared.choose({ [side]: clamp(row + firstOf(side), firstOf(side), header[side].pieces.length - 1) });
  const headNumber = () => shared.state.head || 0;

  // ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────

  // The vector of one word at one part: {norm, values}.
  function reader(planes) {
    return (name, side = stage().side, row = rowOfSide(side)) => {
      const { data, shape } = planes[side];
      const from = (header.flow[side].indexOf(name) * shape[1] + row) * shape[2];
      return { norm: data[from], values: [...data.subarray(from + 1, from + shape[2])] };
    };
  }

  async function walkAt(one, planes) {
    const { model } = header;
    const attends = one.sublayer === "attention" || one.sublayer === "cross";
    const heads = attends && LOOKS.includes(one.name) ? [...Array(model.heads).keys()] : [];
    const row = rowOfSide(one.side);
    const looked = one.name === "join" ? heads : heads.filter((head) => head === headNumber());
    const all = await Promise.all(looked.map((head) => computed(shared, one.kind, one.layer, head, row)));
    if (all.some((found) => !found.keys)) return null;
    const found = one.name === "join" ? all[headNumber()] : all[0];
    const keyPieces = attends ? header[sidesOf(header, one.kind).keys].pieces : [];
    const offAt = (head) => header.off.findIndex(([kind, layer, n]) => kind === one.kind && layer === one.layer && n === head);
    const isOff = (head) => offAt(head) >= 0;
    const given = (head) => (header.means ? header.means[offAt(head)] : all[head].output.map(() => 0));
    const instead = new Map(heads.filter(isOff).map((head) => [head, one.name === "join" ? given(head) : null]));
    return {
      part: reader(planes), found, all, keyPieces, row,
      key: found ? keyOf(one, found.keys, row) : null,
      head: headNumber(), off: isOff(headNumber()), instead, means: Boolean(header.means),
      read: readPieces(header, one.side), pieces: header[one.side].pieces, piece: pieceOf(one.side), first: firstOf(one.side),
      queryPiece: labelOf(one.side, row),
      ...(writes(header) ? writing() : {}),
      scaled: header.flow[one.side].includes("scaled"), segment: header.flow[one.side].includes("segment"),
      settled: header.flow[one.side].includes("summed"),
      width: model.width, layers: model.layers, hidden: model.options.feedforward, activation: model.options.activation,
      pre: model.options.norm === "pre", sameDepth: model.options.cross === "same",
    };
  }

  // The output of the target's row: its step, the id written, and the log of the softmax sum.
  function writing() {
    const row = rowOfSide("target");
    return { step: header.steps[row], written: header.target.pieces[row + firstOf("target")].id, logSum: header.flow.log_sums[row] };
  }

  // The key to show: in self-attention the word itself; in cross-attention the selected key, or the heaviest.
  function keyOf(one, keys, row) {
    if (one.kind !== "cross") return row;
    if (shared.state.source !== null) return shared.state.source;
    return keys.reduce((best, key) => (key.weight > keys[best].weight ? key.n : best), 0);
  }

  function labelOf(side, row) {
    return readPieces(header, side)[row].text; // the piece that the row reads
  }

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    const one = stage();
    const sides = sidesIn(header);
    const found = await Promise.all(sides.map((side) => shared.planes(`flow/${side}`)));
    const planes = Object.fromEntries(sides.map((side, n) => [side, found[n]]));
    const walk = await walkAt(one, planes);
    if (mine !== run) return;
    const count = header[one.side].pieces.length - firstOf(one.side);
    const about = { header, count, keys: walk && walk.keyPieces.length - (one.kind === "decoder" ? firstRow(header) : 0), place: rowOfSide(one.side) };
    shown = { stage: one, words: wordsOf(one, about), rows: walk ? rowsOfStage(one, walk) : [], piece: wordName(one.side) };
    showFigure(one, planes, one.kind === "cross" && walk && walk.found ? walk.key : null);
    showWords(one);
    rows.dataset.stage = one.name;
    replace(rows, walk ? shown.rows.map(rowElement) : h("p", { class: "note" }, GONE));
    showEveryone(one, planes);
    tell();
  }

  function wordName(side) {
    const row = rowOfSide(side);
    const read = `‘${visible(labelOf(side, row))}’`;
    return side === "source" ? read : `${read}, which writes ‘${visible(writtenBy(row))}’`;
  }

  function writtenBy(row) {
    return header.target.pieces[row + firstOf("target")].text;
  }

  function placeName(one) {
    const tower = NAMES_OF_TOWERS[one.kind];
    if (one.layer === null) return tower;
    const what = { attention: "attention", cross: "cross-attention", feedforward: "feed-forward" }[one.sublayer];
    return `${tower}, layer ${one.layer}, ${what}`;
  }

  function showWords(one) {
    const [name, told, how, shape] = shown.words;
    replace(title, h("small", {}, `${placeName(one)}, for ${shown.piece}`), name);
    sentence.textContent = told;
    replace(formula, how ? h("b", {}, inSigns(how)) : null, shape ? h("span", {}, shape) : null);
    counter.textContent = `${now() + 1} of ${stages.length}`;
    const here = { ...shared, state: { ...shared.state, layer: one.layer } };
    replaceControls(choosers,
      one.layer === null ? null : layerChoice(here, one.kind), LOOKS.includes(one.name) ? headChoice(shared, false) : null);
    showSteps(one);
    showPieces(one);
  }

  // Buttons to follow another word. A row of the target is labelled with the piece that it reads.
  function showPieces(one) {
    const used = words.contains(active(element));
    const chosen = rowOfSide(one.side);
    const count = header[one.side].pieces.length - firstOf(one.side);
    const buttons = [...Array(count).keys()].map((row) => h("button", {
      type: "button", class: "word", "aria-pressed": String(row === chosen), click: () => chooseWord(one.side, row),
    }, h("bdi", {}, spelt(labelOf(one.side, row), true))));
    replace(words, buttons);
    rove(buttons, chosen);
    if (used) buttons[chosen].focus();
  }

  // Buttons for the steps of this box.
  function showSteps(one) {
    const used = steps.contains(active(element));
    const inBox = stages.filter((other) => (one.layer === null ? other.kind === one.kind && other.layer === null : other.box === one.box));
    const buttons = inBox.map((other) => {
      const [name] = wordsOf(other, { header, count: 0, keys: 0, place: 0 });
      return h("button", { type: "button", "aria-pressed": String(other === one), click: () => chooseStage(other) }, name);
    });
    replace(steps, buttons);
    rove(buttons, inBox.indexOf(one));
    if (used) buttons[inBox.indexOf(one)].focus();
  }

  // `looked` is the source piece whose key a cross-attention stage shows.
  function showFigure(one, planes, looked) {
    const read = reader(planes);
    const rowsOn = Object.fromEntries(sidesIn(header).map((side) => [side, rowOfSide(side)]));
    if (looked !== null) rowsOn.source = looked;
    const lengthOf = ({ layer, sublayer, side }, part) => read(`${layer}/${sublayer}/${part}`, side, rowsOn[side]).norm;
    const changeOf = (other) => changeBy(other, { x: lengthOf(other, "x"), y: lengthOf(other, "y") });
    const name = (side, row) => (header[side] ? visible(labelOf(side, row)) : null);
    const ends = { encoder: name("source", rowsOn.source), decoder: name("target", rowsOn.target), out: header.target ? visible(writtenBy(rowsOn.target)) : null };
    const { picture, boxAt } = figureOf(boxesOf(stages, changeOf), ends, one.box, shared.colours, inkOf(element), chooseStage);
    const legend = h("p", { class: "note" }, "The darker a box, the more it changes the vector: length of what it adds, relative to the vector’s length.");
    const scroll = h("div", { class: "scroll" }, picture);
    replace(figure, scroll, legend);
    scroll.scrollTop = boxAt(one.box) - scroll.clientHeight / 2;
  }

  function rowElement(row) {
    if (row.type === "sign") return h("div", { class: "sign" }, h("span", {}, inSigns(row.text)));
    if (row.type === "pieces") return piecesElement(row);
    return row.type === "bars" ? barsElement(row) : stripElement(row);
  }

  function stripElement(row) {
    const most = greatest(...shown.rows.filter((other) => other.type === "strip" && other.group === row.group).map((other) => other.values));
    const cells = row.values.map((value, n) => {
      const cell = h("span", {
        pointermove: (event) => tip.show(event, `${row.label}[${n}] = ${signed(value)}`), pointerleave: tip.hide,
      }, shortNumber(value));
      cell.style.setProperty("--tint", css(shared.colours.signed(most ? value / most : 0)));
      cell.style.setProperty("--on", shared.colours.onSigned(most ? value / most : 0));
      return cell;
    });
    const rest = row.of - row.values.length;
    return h("div", { class: row.chosen ? "vector chosen" : "vector" },
      h("div", { class: "label" }, h("b", {}, row.label), row.about ? h("bdi", {}, spelt(row.about)) : null),
      h("div", { class: "cells" }, cells),
      h("div", { class: "more" }, rest > 0 ? h("span", {}, `… ${rest.toLocaleString("en")} more`) : null,
        h("span", {}, `length ${signed(row.norm)}`), row.note ? h("span", {}, visible(row.note)) : null));
  }

  function barsElement(row) {
    const items = row.items.map((one) => {
      const bar = h("span", { class: one.share < 0 ? "bar against" : "bar" });
      bar.style.setProperty("--share", Math.abs(one.share));
      return h("li", { class: [one.chosen ? "chosen" : "", one.masked ? "masked" : ""].join(" ") },
        h("bdi", { class: "label" }, spelt(one.text, true)), bar, h("span", { class: "number" }, one.told));
    });
    return h("ol", { class: "bars", "aria-label": row.label }, items, row.rest ? h("li", { class: "rest" }, `${row.rest} more`) : null);
  }

  function piecesElement(row) {
    return h("div", { class: "chips" }, row.items.map((one) =>
      h("button", { type: "button", class: one.chosen ? "chosen" : "", click: () => chooseWord(shown.stage.side, one.row) },
        h("bdi", {}, spelt(one.text, true)), h("small", {}, String(one.id)))));
  }

  // The same vector for every word, as the rows of a matrix. A click follows another word.
  function showEveryone(one, planes) {
    const pre = header.model.options.norm === "pre";
    const name = handedOn(one, pre, header.flow[one.side]);
    const used = everyone.contains(active(element));
    const count = name ? planes[one.side].shape[1] : 0;
    const read = reader(planes);
    const all = name ? [...Array(count).keys()].map((row) => read(name, one.side, row)) : [];
    const [most, longest] = [greatest(...all.map((other) => other.values)), Math.max(1e-9, ...all.map((other) => other.norm))];
    const chosen = rowOfSide(one.side);
    const buttons = [...Array(count).keys()].map((row) => {
      const vector = all[row];
      const bar = h("span", { class: "bar" });
      bar.style.setProperty("--share", vector.norm / longest);
      return h("button", { type: "button", class: "one", "aria-pressed": String(row === chosen), click: () => chooseWord(one.side, row) },
        h("bdi", { class: "label" }, spelt(labelOf(one.side, row), true)),
        strip(vector.values, most, shared.colours, tip, (n) => `[${n}] = ${signed(vector.values[n])}`), bar,
        h("span", { class: "number" }, signed(vector.norm)));
    });
    const what = "All words at this step: first numbers and length of each vector";
    everyone.hidden = !name;
    replace(everyone, h("span", { class: "name" }, what), h("div", { class: "table" }, buttons));
    rove(buttons, chosen);
    if (used) buttons[chosen].focus();
  }

  function tell() {
    shared.say(`${now() + 1} of ${stages.length}: ${placeName(shown.stage)}: ${shown.words[0]}, for ${shown.piece}${outcomeOf(shown.rows)}`);
  }

  // ── keyboard, files ───────────────────────────────────────────────────────────────────────────────────────────────

  function move(by) {
    player.stop();
    go(now() + by);
  }

  element.addEventListener("keydown", (event) => {
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const { side } = stage();
    if (choosers.contains(event.target)) return;
    if (along) move(along);
    else if (down) chooseWord(side, rowOfSide(side) + down);
    else if (event.key === " " && !event.target.closest("button")) player.toggle();
    else return;
    event.preventDefault();
  });

  return {
    element,
    update,
    resize: () => {},
    repaint: () => shown && update(),
    table: () => flowTable(shown),
    picture: () => flowPicture(shared, shown, placeName(shown.stage)),
  };
}

// Typesets W_q and e^score with subscripts and superscripts.
function inSigns(text) {
  return text.split(/([_^](?:\([^)]*\)|\w+))/).map((part, n) => {
    if (n % 2 === 0) return part;
    return h(part[0] === "_" ? "sub" : "sup", {}, part.slice(1).replace(/^\((.*)\)$/, "$1"));
  });
}

// The result of a stage in words, for screen readers.
function outcomeOf(rows) {
  const last = rows.filter((row) => row.type === "strip" || row.type === "bars").pop();
  if (!last) return "";
  if (last.type === "strip") return `: ${last.label} has length ${signed(last.norm)}`;
  const best = last.items.filter((one) => !one.masked).reduce((most, one) => (one.value > most.value ? one : most));
  return `: largest for ‘${visible(best.text)}’, ${best.told}`;
}

// A number for a cell: about three digits, as many as fit.
export function shortNumber(value) {
  const size = Math.abs(value);
  const text = size >= 100 ? size.toFixed(0) : size >= 10 ? size.toFixed(1) : size.toFixed(2);
  return Number(text) === 0 ? "0" : `${value < 0 ? "−" : ""}${text}`;
}

function flowTable({ rows }) {
  const head = ["row", "name", "length", ...[...Array(CELLS).keys()].map(String)];
  const lines = rows.flatMap((row, n) => {
    if (row.type === "strip") return [[n, row.about ? `${row.label} ${row.about.trim()}` : row.label, row.norm, ...row.values]];
    if (row.type === "bars") return row.items.map((one) => [n, one.text, "", one.masked ? "" : one.value]);
    if (row.type === "pieces") return row.items.map((one) => [n, one.text, "", one.id]);
    return [[n, row.text]];
  });
  return [head, ...lines];
}
