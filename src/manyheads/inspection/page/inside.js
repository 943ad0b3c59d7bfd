// View 10, query and key: one head, one query, every number from q·k to the weights and what they mix.

import { computed } from "./attention.js";
import { headChoice, kindChoice, layerChoice } from "./controls.js";
import { active, h, replace, replaceControls, rove } from "./dom.js";
import { insidePicture } from "./insidepicture.js";
import { spelt, visible } from "./letters.js";
import { clamp, exact, signed } from "./numbers.js";
import { namesOf } from "./selection.js";
import { greatest, strip } from "./strips.js";
import { makeTip } from "./tip.js";
import { sidesOf } from "./weights.js";

const FAR_OFF = 0.002; // 16-bit weights are off by 0.0005 at most: more means that the sums here are not the model's

export function insideView(shared) {
  const controls = h("div", { class: "controls" });
  const queries = h("div", { class: "queries", role: "group", "aria-label": "Query" });
  const formula = h("div", { class: "formula" });
  const rows = h("tbody", {});
  const head = h("thead", {});
  const wide = h("div", { class: "wide", tabindex: 0, role: "application", "aria-label": "Keys. Arrow keys move to the next one, and to the next query." }, h("table", {}, head, rows));
  const result = h("div", { class: "result" });
  const element = h("div", { class: "inside" }, controls, queries, formula, wide, result);
  const tip = makeTip(element);
  let shown = null;
  let run = 0;

  // ── which query, which key ───────────────────────────────────────────────────────────────────────────────────────

  // Row t of a decoder writes piece t + 1; a row of the encoder is its piece.
  const first = () => (shared.state.kind === "encoder" ? 0 : 1);
  const piecesOf = (side) => shared.header[sidesOf(shared.state.kind)[side]].pieces;
  const queryPiece = () => clamp(shared.state[namesOf(shared.state.kind).query] ?? first(), first(), piecesOf("queries").length - 1);
  const keyPiece = () => shared.state[namesOf(shared.state.kind).key];
  const headNumber = () => shared.state.head || 0;
  const chooseQuery = (piece) => shared.choose({ [namesOf(shared.state.kind).query]: piece });
  const chooseKey = (piece) => shared.choose({ [namesOf(shared.state.kind).key]: piece });

  // ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    const { kind, layer } = shared.state;
    const found = await computed(shared, kind, layer, headNumber(), queryPiece() - first());
    if (mine !== run) return;
    replaceControls(controls, kindChoice(shared), layerChoice(shared), headChoice(shared, false));
    showQueries();
    element.classList.toggle("missing", !found.keys);
    shown = found.keys ? { ...found, selected: selectedKey(found) } : null;
    if (shown) draw();
    else replace(formula, h("p", { class: "warning" }, `Not in this page: ${found.missing.join(", ") || "the single weights"} of ${kind} layer ${layer}. It would have been too large.`));
  }

  // The key that was chosen, else the heaviest.
  function selectedKey({ keys }) {
    const chosen = keyPiece();
    if (chosen !== null && chosen < keys.length) return chosen;
    return keys.reduce((best, key) => (key.weight > keys[best].weight ? key.n : best), 0);
  }

  function showQueries() {
    const used = queries.contains(active(queries));
    const chosen = queryPiece();
    const buttons = piecesOf("queries").slice(first()).map((piece, n) =>
      h("button", { type: "button", class: "word", "aria-pressed": String(n + first() === chosen), click: () => chooseQuery(n + first()) }, h("bdi", {}, spelt(piece.text, true))));
    const said = shared.state.kind === "encoder" ? "Query: the piece that looks" : "Query: the piece that is being written";
    replace(queries, h("span", { class: "name" }, said), buttons);
    rove(buttons, chosen - first());
    if (used) buttons[chosen - first()].focus();
  }

  function draw() {
    const { keys, q, output } = shown;
    const { colours } = shared;
    const scales = { q: greatest(q), k: greatest(...keys.map((key) => key.key)), products: greatest(...keys.map((key) => key.products)), v: greatest(output, ...keys.map((key) => key.value)) };
    const dotted = shared.header.model.scale !== null;
    replace(head, h("tr", {}, ["Key", "k", "q × k", ...(dotted ? ["q·k"] : []), "score", "e^(score − max)", "weight", "", "|v|"].map((name) => h("th", {}, name))));
    replace(rows, h("tr", { class: "query" }, h("td", {}, "q"), h("td", {}, strip(q, scales.q, colours, tip, (n) => `q[${n}] = ${signed(q[n])}`)), h("td", { colspan: dotted ? 7 : 6, class: "aside" }, `${q.length} numbers; blue above 0, orange below`)),
      keys.map((key) => rowOfKey(key, scales, dotted)), rowOfSums(dotted));
    fillFormula(dotted);
    replace(result,
      h("span", { class: "name" }, "Σ w·v, what this head hands on"),
      strip(output, scales.v, colours, tip, (n) => `(Σ w·v)[${n}] = ${signed(output[n])}`),
      agreement(shown.off));
    tell();
  }

  function rowOfKey(key, scales, dotted) {
    const { q } = shown;
    const about = (n) => `q[${n}] × k[${n}] = ${signed(q[n])} × ${signed(key.key[n])} = ${signed(key.products[n])}`;
    const bar = h("span", { class: "bar" });
    bar.style.setProperty("--share", key.weight);
    const number = (text) => h("td", { class: "number" }, text);
    const classes = [key.n === shown.selected ? "selected" : "", key.masked ? "masked" : ""].join(" ");
    return h("tr", { class: classes, click: () => chooseKey(key.n), "aria-selected": String(key.n === shown.selected) },
      h("th", { scope: "row" }, h("bdi", {}, spelt(piecesOf("keys")[key.n].text, true))),
      h("td", {}, strip(key.key, scales.k, shared.colours, tip, about)),
      h("td", {}, strip(key.products, scales.products, shared.colours, tip, about)),
      dotted ? number(signed(key.dot)) : null,
      number(signed(key.score)),
      number(key.masked ? "masked" : exact(key.power)),
      number(exact(key.weight)),
      h("td", { class: "bar-cell" }, bar),
      number(signed(key.length)));
  }

  function rowOfSums(dotted) {
    const number = (text) => h("td", { class: "number" }, text);
    const all = shown.keys.reduce((sum, key) => sum + key.weight, 0);
    return h("tr", { class: "sums" }, h("td", { colspan: dotted ? 5 : 4 }, "sum"), number(exact(shown.sum)), number(exact(all)), h("td", { colspan: 2 }));
  }

  // ── the numbers of the selected key, in words ────────────────────────────────────────────────────────────────────

  function fillFormula(dotted) {
    const key = shown.keys[shown.selected];
    const { scale } = shared.header.model;
    const steps = [
      dotted ? ["q·k", signed(key.dot), `the ${shown.q.length} products, added up`] : null,
      dotted ? ["score", `${signed(key.dot)} × ${signed(scale)} = ${signed(key.score)}`, scaleName(scale, shown.q.length)] : ["score", signed(key.score), "learned: no product of q and k"],
      key.masked
        ? ["mask", "left out", "it may not be seen from here"]
        : ["exp", `e^(${signed(key.score)} − ${signed(shown.largest)}) = ${exact(key.power)}`, "against the largest score of the row"],
      ["weight", key.masked ? "0" : `${exact(key.power)} / ${exact(shown.sum)} = ${exact(key.weight)}`, "its share of the sum of all"],
    ];
    replace(formula, h("p", { class: "pair" }, h("bdi", {}, queryText()), " → ", h("bdi", {}, keyText())),
      h("ol", {}, steps.filter(Boolean).map(([name, sum, why]) => h("li", {}, h("span", { class: "name" }, name), h("b", {}, sum), h("small", {}, why)))));
  }

  function queryText() {
    return visible(piecesOf("queries")[queryPiece()].text);
  }

  function keyText() {
    return visible(piecesOf("keys")[shown.selected].text);
  }

  function tell() {
    const key = shown.keys[shown.selected];
    const { kind, layer } = shared.state;
    const found = key.masked ? "masked" : `score ${signed(key.score)}, weight ${exact(key.weight)}`;
    shared.say(`‘${queryText()}’ at ‘${keyText()}’: ${found} (${kind} layer ${layer}, head ${headNumber()})`);
  }

  // ── keys of the keyboard, files ──────────────────────────────────────────────────────────────────────────────────

  wide.addEventListener("keydown", (event) => {
    const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const on = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!shown || !(down || on)) return;
    event.preventDefault();
    if (down) chooseKey(clamp(shown.selected + down, 0, shown.keys.length - 1));
    else stepQuery(on);
  });
  queries.addEventListener("keydown", (event) => {
    const on = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (on) event.preventDefault();
    if (on) stepQuery(on);
  });

  function stepQuery(by) {
    chooseQuery(clamp(queryPiece() + by, first(), piecesOf("queries").length - 1));
  }

  return {
    element,
    update,
    resize: () => {},
    repaint: () => shown && draw(),
    table: () => insideTable(shown, piecesOf("keys")),
    picture: () => insidePicture(shared, shown, { query: queryText(), keys: piecesOf("keys"), head: headNumber() }),
  };
}

function scaleName(scale, width) {
  return Math.abs(scale - width ** -0.5) < 1e-9 ? `scaled by 1/√${width}` : "times the scale";
}

function agreement(off) {
  if (off > FAR_OFF) return h("p", { class: "warning" }, `These sums differ from the model’s own weights by ${exact(off)}: do not trust them.`);
  return h("p", { class: "note" }, `Computed here from q, k and v; agrees with the model’s own weights to ${exact(Math.max(off, 0.0001))}.`);
}

function insideTable({ q, keys }, pieces) {
  const header = ["key", "q·k", "score", "masked", "exp", "weight", "|v|", ...[...q].map((_, n) => `q×k ${n}`)];
  const rows = keys.map((key) => [pieces[key.n].text, key.dot, key.score, Number(key.masked), key.power, key.weight, key.length, ...key.products]);
  return [header, ...rows];
}
