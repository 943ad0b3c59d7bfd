// View 6, beam tree: what the search considered, what it kept, and why the translation won. A click selects a
// hypothesis and shows its attention; on a live page, all other views can show it, too.

import { beamPicture } from "./beampicture.js";
import { branchOf, NODE, layoutOf, pathTo, penaltyOf, searchOf, searchTable, STATUSES, textOf } from "./beamtree.js";
import { inkOf, makeBoard } from "./board.js";
import { button, check } from "./controls.js";
import { active, h, intoSight, replace, replaceControls, rove, s } from "./dom.js";
import { imageOf } from "./heatmap.js";
import { spelt, visible } from "./letters.js";
import { clamp, exact, hundredths } from "./numbers.js";
import { sheet } from "./saving.js";
import { makeTip } from "./tip.js";
import { headName, maskOf } from "./weights.js";
import { merged, renormalised, unitsOf } from "./words.js";

const NO_SEARCH = {
  given: "The translation was given, so there was no search.",
  none: "There is no log of this search, because it did not use a single beam.",
};
const FORMER = "The other views show the hypothesis chosen here; this is the search that it comes from.";
const FILE = "The page of ‘manyheads serve’ can show any hypothesis in all views.";
const NOT_SEEN = "The attention of this hypothesis was left out: the search considered too many to include them all.";

export function beamView(shared) {
  const controls = h("div", { class: "controls" });
  const branches = s("svg", { class: "branches", "aria-hidden": "true" });
  const trunk = h("div", { class: "trunk", role: "group", "aria-label": "Continuations, step by step" });
  const tree = h("div", { class: "tree" }, trunk);
  const lead = h("p", { class: "lead" });
  const told = h("dl", { class: "facts" });
  const more = h("div", { class: "controls" });
  const ends = h("ol", { class: "ends" });
  const caption = h("p", { class: "aside" });
  const board = makeBoard({ look: lookAt, pin: lookAt, go });
  const boardTip = makeTip(board.element);
  const note = h("p", { class: "note" });
  const element = h("div", { class: "beam" },
    controls, tree, samples(),
    h("div", { class: "hypothesis" },
      h("section", {}, lead, told, more, h("div", { class: "looked" }, caption, board.element)),
      h("section", {}, h("p", { class: "lead" }, "Ended hypotheses", h("small", {}, "The best score wins.")), ends)),
    note);
  const tip = makeTip(element);
  let search = null;
  let shown = null; // the heat map: {grid, labels, …}
  let run = 0;

  const chosen = () => {
    const { node } = shared.state;
    return node !== null && node < search.nodes.length ? node : search.best;
  };

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    search = searchOf(shared);
    element.classList.toggle("missing", !search);
    const refusal = shared.asking && shared.asking.refusal;
    const refused = refusal && refusal.place === "beam" ? refusal.sentence : null;
    note.classList.toggle("warning", Boolean(refused));
    note.textContent = refused || noteOf();
    if (!search) return;
    replaceControls(controls,
      check("Show pruned hypotheses", shared.state.pruned, (pruned) => shared.choose({ pruned })),
      h("span", { class: "aside" },
        `Beam of ${search.beam}. Each column is a step, with the best on top; numbers are scores.`));
    showTree();
    showChosen();
    showEnds();
    const plane = search.former ? null : await shared.planes("search");
    if (mine === run) showLook(plane);
  }

  function noteOf() {
    if (!search) return shared.header.forced ? NO_SEARCH.given : NO_SEARCH.none;
    return search.former ? FORMER : shared.asking ? "" : FILE;
  }

  function showTree() {
    const used = trunk.contains(active(element));
    const { nodes, best } = search;
    const path = pathTo(nodes, chosen());
    const layout = layoutOf(nodes, shared.state.pruned, [...path, ...pathTo(nodes, best)]);
    trunk.style.setProperty("width", `${layout.width}px`);
    trunk.style.setProperty("height", `${layout.height}px`);
    const all = layout.columns.flat();
    replace(branches, all.map((n) => limb(nodes[n], layout.spots, n, path.includes(n))));
    const buttons = all.map((n) => nodeButton(n, layout.spots.get(n), path.includes(n)));
    replace(trunk, branches, h("span", { class: "begin" }, "⟨begin⟩"), buttons);
    const at = all.indexOf(chosen());
    rove(buttons, at);
    if (used) buttons[at].focus();
    if (shared.state.node !== null) intoSight(tree, buttons[at], NODE.gap);
  }

  function nodeButton(n, { x, y }, onPath) {
    const node = search.nodes[n];
    const look = `node ${node.status}${onPath ? " on-path" : ""}`;
    const name = `${textOf(search.nodes, n)}: ${sentence(n)}`;
    const made = h("button", {
      type: "button", class: look, "aria-pressed": String(n === chosen()), "aria-label": visible(name), "data-node": n,
      click: () => shared.choose({ node: n }), pointerleave: tip.hide,
      pointermove: (event) => tip.show(event, h("b", {}, exact(Math.exp(node.log_probability))), card(node)),
    }, h("bdi", { class: "label" }, spelt(node.text, true)), h("span", { class: "value" }, hundredths(node.score)));
    made.style.setProperty("left", `${x}px`);
    made.style.setProperty("top", `${y}px`);
    return made;
  }

  function card(node) {
    return [
      h("small", {}, `probability of ‘${visible(node.text)}’; ${STATUSES[node.status]}`),
      h("dl", {}, scoresOf(node).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    ];
  }

  // ── the chosen hypothesis ─────────────────────────────────────────────────────────────────────────────────────────

  function sentence(n) {
    const node = search.nodes[n];
    const numbers = `log-probability ${exactly(node.total)}, score ${exactly(node.score)}`;
    return `step ${node.step + 1}, rank ${node.rank + 1}, ${STATUSES[node.status]}; ${numbers}`;
  }

  function showChosen() {
    const [n, { nodes, best }] = [chosen(), search];
    const node = nodes[n];
    replace(lead, h("bdi", { dir: "auto" }, spelt(textOf(nodes, n) || "⟨end⟩")),
      h("small", {}, n === best ? "the winning translation" : STATUSES[node.status]));
    const facts = [
      ...scoresOf(node),
      ["probability of the last piece", exact(Math.exp(node.log_probability))], ["rank in its step", `${node.rank + 1}`],
    ];
    replace(told, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    const { asking } = shared;
    const trail = asking && asking.trail.length > 0;
    replace(more,
      asking && n !== best ? button("Show it in all views", () => lookInside(n), "Makes the model write this hypothesis") : null,
      trail ? button("Back to the previous translation", () => asking.back("beam")) : null);
    shared.say(`‘${visible(textOf(nodes, n))}’: ${sentence(n)}`);
  }

  function lookInside(n) {
    const ids = pathTo(search.nodes, n).map((m) => search.nodes[m].id);
    shared.asking.branch({ ids, target: null, prefix: "" }, "beam");
  }

  function showEnds() {
    const { nodes } = search;
    const found = [...nodes.keys()].filter((n) => nodes[n].status === "finished");
    const byScore = found.sort((a, b) => nodes[b].score - nodes[a].score);
    const likeliest = [...byScore].sort((a, b) => nodes[b].total - nodes[a].total);
    const item = (n) => h("li", {}, h("button", {
      type: "button", class: n === chosen() ? "end chosen" : "end", click: () => shared.choose({ node: n }),
    }, h("bdi", { class: "label", dir: "auto" }, spelt(textOf(nodes, n) || "⟨end⟩")),
    h("span", { class: "number" }, `score ${exactly(nodes[n].score)}`),
    h("span", { class: "number" },
      `log-probability ${exactly(nodes[n].total)}, rank ${likeliest.indexOf(n) + 1}`)));
    const nothing = h("li", { class: "rest" }, "None: the search stopped at the length limit.");
    replace(ends, byScore.length ? byScore.map(item) : nothing);
  }

  // ── its attention ─────────────────────────────────────────────────────────────────────────────────────────────────

  function showLook(plane) {
    const path = pathTo(search.nodes, chosen());
    const { state, header } = shared;
    const seen = plane && rowSum(plane, path[path.length - 1]) > 0.5;
    board.element.hidden = !seen;
    caption.textContent = seen
      ? `Attention of each piece when it was written: ${headName(search.layer, search.head)}`
      : search.former ? "" : NOT_SEEN;
    if (!seen) return;
    const columns = unitsOf(header.source, state.words).filter((unit) => !(state.hide && unit.special));
    const rows = path.map((n) => {
      const { text, id } = search.nodes[n];
      return { text, rows: [n], pieces: [n], special: id === 2 };
    });
    const values = merged(plane, 0, rows, columns);
    if (state.hide) renormalised(values, columns.length);
    const grid = { kind: "cross", rows, columns, values, block: 1, hidden: state.hide, bounds: [null, null] };
    const texts = (units) => units.map((unit) => visible(unit.text));
    const labels = { rows: texts(rows), columns: texts(columns) };
    shown = { grid, labels, masked: maskOf(grid), lit: null, pinned: null };
    paintLook();
  }

  function paintLook() {
    const { colours, state } = shared;
    const image = imageOf(shown.grid, colours, state.power);
    Object.assign(shown, { colours, power: state.power, ink: inkOf(element), image });
    board.show(shown, board.element.parentElement.clientWidth);
  }

  function lookAt(cell, event) {
    shown.lit = cell;
    board.repaint();
    boardTip.hide();
    if (!cell) return;
    const { grid, labels } = shown;
    const weight = exact(grid.values[cell.row * grid.columns.length + cell.column]);
    const [row, column] = [labels.rows[cell.row], labels.columns[cell.column]];
    shared.say(`‘${row}’ → ‘${column}’: ${weight} (${headName(search.layer, search.head)})`);
    if (event) boardTip.show(event, h("b", {}, weight), h("bdi", {}, `${row} → ${column}`));
  }

  function go([down, right]) {
    const { grid, lit } = shown;
    const from = lit || { row: -down, column: -right };
    const cell = {
      row: clamp(from.row + down, 0, grid.rows.length - 1),
      column: clamp(from.column + right, 0, grid.columns.length - 1),
    };
    lookAt(cell, null);
  }

  // ── keys, files ───────────────────────────────────────────────────────────────────────────────────────────────────

  trunk.addEventListener("keydown", (event) => {
    const to = neighbourOf(event.key);
    if (to === null) return;
    event.preventDefault();
    shared.choose({ node: to });
  });

  // Left goes to the parent, right to the best continuation, up and down to the others of the same step.
  function neighbourOf(key) {
    const { nodes } = search;
    const now = chosen();
    const column = [...trunk.querySelectorAll(".node")].map((one) => Number(one.dataset.node))
      .filter((n) => nodes[n].step === nodes[now].step);
    const found = {
      ArrowLeft: nodes[now].parent,
      ArrowRight: nodes.findIndex((node) => node.parent === now),
      ArrowUp: column[column.indexOf(now) - 1],
      ArrowDown: column[column.indexOf(now) + 1],
    }[key];
    return found === undefined || found === null || found < 0 ? null : found;
  }

  return {
    element,
    update,
    resize: () => shown && !board.element.hidden && board.resize(board.element.parentElement.clientWidth),
    repaint: () => shown && paintLook(),
    table: () => (search ? searchTable(search) : [["node"]]),
    picture: () => (search ? beamPicture(shared, search, chosen()) : sheet(420, 60, noteOf())),
  };
}

function samples() {
  const one = ([status, meaning]) => h("span", {}, h("i", { class: `node ${status}` }), meaning);
  return h("p", { class: "samples", "aria-hidden": "true" }, Object.entries(STATUSES).map(one));
}

function limb(node, spots, n, onPath) {
  const width = (0.8 + 3 * Math.exp(node.log_probability)).toFixed(2);
  const look = `${node.status}${onPath ? " on-path" : ""}`;
  return s("path", { d: branchOf(spots, node, n), class: look, "stroke-width": width });
}

function scoresOf(node) {
  const { total, score } = node;
  return [
    ["log-probability", exactly(total)], ["length penalty", exact(penaltyOf(node))], ["score", exactly(score)],
  ];
}

function exactly(value) {
  return exact(value).replace("-", "−");
}

function rowSum(plane, row) {
  const wide = plane.shape[2];
  return plane.data.subarray(row * wide, (row + 1) * wide).reduce((sum, weight) => sum + weight, 0);
}
