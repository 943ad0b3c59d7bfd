// View 10, query and key: for one query of one head, every number from q·k to the weights and the output.

import { computed } from "./attention.js";
import { headChoice, kindChoice, layerChoice } from "./controls.js";
import { active, h, replace, replaceControls, rove } from "./dom.js";
import { insidePicture } from "./insidepicture.js";
import { fullColour, keyRow, queryRow, stepsOf, sumRow, tableHead } from "./insidetable.js";
import { spelt, visible } from "./letters.js";
import { clamp, exact, signed } from "./numbers.js";
import { namesOf } from "./selection.js";
import { strip } from "./strips.js";
import { makeTip } from "./tip.js";
import { firstOfKind, sidesOf } from "./weights.js";

const FAR_OFF = 0.002; // 16-bit weights are off by at most 0.0005: a larger error means that this computation is wrong

export function insideView(shared) {
  const controls = h("div", { class: "controls" });
  const queries = h("div", { class: "queries", role: "group", "aria-label": "Query" });
  const formula = h("div", { class: "formula" });
  const [head, rows] = [h("thead", {}), h("tbody", {})];
  const label = "Keys. The up and down arrow keys select a key, left and right a query.";
  const table = h("div", { class: "wide", tabindex: 0, role: "application", "aria-label": label },
    h("table", {}, head, rows));
  const result = h("div", { class: "result" });
  const element = h("div", { class: "inside" }, controls, queries, formula, table, result);
  const tip = makeTip(element);
  let shown = null; // the result of `computed`, and the selected key
  let run = 0;

  // ── which query, which key ────────────────────────────────────────────────────────────────────────────────────────

  const first = () => firstOfKind(shared.header, shared.state.kind); // the piece of the first row
  const names = () => namesOf(shared.state.kind);
  const piecesOf = (side) => shared.header[sidesOf(shared.header, shared.state.kind)[side]].pieces;
  const within = (piece) => clamp(piece, first(), piecesOf("queries").length - 1);
  const queryPiece = () => within(shared.state[names().query] ?? first());
  const headNumber = () => shared.state.head || 0; // the mean of heads has neither queries nor keys
  const chooseQuery = (piece) => shared.choose({ [names().query]: within(piece) });
  const chooseKey = (n) => shared.choose({ [names().key]: clamp(n, 0, shown.keys.length - 1) });

  // The chosen key, or the heaviest.
  function selectedOf(keys) {
    const chosen = shared.state[names().key];
    if (chosen !== null && chosen < keys.length) return chosen;
    return keys.reduce((best, key) => (key.weight > keys[best].weight ? key.n : best), 0);
  }

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    const { kind, layer } = shared.state;
    const found = await computed(shared, kind, layer, headNumber(), queryPiece() - first());
    if (mine !== run) return;
    replaceControls(controls, kindChoice(shared), layerChoice(shared), headChoice(shared, false));
    showQueries();
    element.classList.toggle("missing", !found.keys);
    shown = found.keys ? { ...found, selected: selectedOf(found.keys) } : null;
    if (shown) draw();
    else tellMissing(found.missing);
  }

  function tellMissing(missing) {
    const { kind, layer } = shared.state;
    const what = `${missing.join(", ") || "individual weights"} of ${kind} layer ${layer}`;
    replace(formula, h("p", { class: "warning" }, `Left out of this page to limit its size: ${what}.`));
  }

  function showQueries() {
    const used = queries.contains(active(queries));
    const chosen = queryPiece() - first();
    const buttons = piecesOf("queries").slice(first()).map((piece, n) =>
      h("button", {
        type: "button", class: "word", "aria-pressed": String(n === chosen), click: () => chooseQuery(n + first()),
      }, h("bdi", {}, spelt(piece.text, true))));
    const does = shared.state.kind === "encoder" ? "attends" : "is being written";
    replace(queries, h("span", { class: "name" }, `Query: the piece that ${does}`), buttons);
    rove(buttons, chosen);
    if (used) buttons[chosen].focus();
  }

  function draw() {
    const { keys, output, selected, off } = shown;
    const { colours } = shared;
    const { scale } = shared.header.model;
    const [most, dotted] = [fullColour(shown), scale !== null];
    const rowOfKey = (key) => keyRow(
      shown, key, piecesOf("keys")[key.n].text, most, dotted, colours, tip, key.n === selected, () => chooseKey(key.n));
    replace(head, tableHead(dotted));
    replace(rows, queryRow(shown, most, dotted, colours, tip), keys.map(rowOfKey), sumRow(shown, dotted));
    if (table.contains(active(table))) rows.children[selected + 1].scrollIntoView({ block: "nearest" });
    showSteps(stepsOf(shown, keys[selected], scale));
    replace(result,
      h("span", { class: "name" }, "Σ w·v, the output of this head"),
      strip(output, most.output, colours, tip, (n) => `(Σ w·v)[${n}] = ${signed(output[n])}`),
      agreement(off));
    tell();
  }

  function showSteps(steps) {
    const items = steps.map(([name, sum, why]) =>
      h("li", {}, h("span", { class: "name" }, name), h("b", {}, sum), h("small", {}, why)));
    replace(formula,
      h("p", { class: "pair" }, h("bdi", {}, queryText()), " → ", h("bdi", {}, keyText())), h("ol", {}, items));
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
    shared.say(`‘${queryText()}’ → ‘${keyText()}’: ${found} (${kind} layer ${layer}, head ${headNumber()})`);
  }

  // ── keyboard, files ───────────────────────────────────────────────────────────────────────────────────────────────

  element.addEventListener("keydown", (event) => {
    const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const on = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!shown || !(down || on) || controls.contains(event.target)) return;
    event.preventDefault();
    if (down) chooseKey(shown.selected + down);
    else chooseQuery(queryPiece() + on);
  });

  return {
    element,
    update,
    resize: () => {},
    repaint: () => shown && draw(),
    table: () => insideTable(shown, piecesOf("keys")),
    picture: () => insidePicture(shared, shown, { query: queryText(), pieces: piecesOf("keys"), head: headNumber() }),
  };
}

function agreement(off) {
  if (off > FAR_OFF) {
    const text = `These numbers differ from the model’s own weights by ${exact(off)}: do not trust them.`;
    return h("p", { class: "warning" }, text);
  }
  const close = exact(Math.max(off, 0.0001));
  return h("p", { class: "note" }, `Recomputed from q, k and v; agrees with the model’s own weights to within ${close}.`);
}

function insideTable({ q, keys }, pieces) {
  const header = ["key", "q·k", "score", "masked", "exp", "weight", "|v|", ...[...q].map((_, n) => `q×k ${n}`)];
  const numbers = (key) => [key.dot, key.score, Number(key.masked), key.power, key.weight, key.length];
  return [header, ...keys.map((key) => [pieces[key.n].text, ...numbers(key), ...key.products])];
}
