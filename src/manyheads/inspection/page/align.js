// View 1, translate and align: source and translation as two lines of words, with links between them.

import { heaviest, showBars, showPairs } from "./bars.js";
import { css } from "./colour.js";
import { choice, headChoice, layerChoice } from "./controls.js";
import { active, h, replace, replaceControls, rove, s } from "./dom.js";
import { direction, spelt, visible } from "./letters.js";
import { alignPicture } from "./alignpicture.js";
import { attributionsOf, linksByAttribution, METHODS } from "./methods.js";
import { exact, percent } from "./numbers.js";
import { firstRow, sureOf } from "./rows.js";
import { columnOf, gridOf, headName, meanGrid, rowOf, unitWith } from "./weights.js";

const LIGHTEST = 0.04; // lighter links would be too thin to see
const MOST_LINKS = 500;
const LAYOUTS = ["large", "medium", "small", "columns", "text"]; // the first that fits is used
const TALLEST_COLUMN = 20;
const VERBS = {
  looks: {
    target: "attends to", source: "is attended to by", most: "attends to most", whole: "that word’s attention",
  },
  owes: {
    target: "is attributed to", source: "contributes to", most: "is attributed to most", whole: "that word’s attribution",
  },
};
export const LEFT_OUT_HEADS =
  "The individual weights of these heads were left out of this page to limit its size.";

export function alignView(shared) {
  const controls = h("div", { class: "controls" });
  const links = s("svg", { class: "links", "aria-hidden": "true" });
  const lines = { source: line("Source"), target: line("Translation") };
  const stage = h("div", { class: "stage" }, links, lines.source, lines.target);
  const bars = h("ol", { class: "bars" });
  const lead = h("p", { class: "lead" });
  const element = h("div", { class: "align" }, controls, stage, h("div", { class: "readout" }, lead, bars));
  let grid = null;
  let drawn = [];
  let pointed = null; // the word under the mouse or with focus: {side, n}
  let run = 0;

  const unitsOn = (side) => (side === "target" ? grid.rows : grid.columns);
  const pinned = () => {
    const { source, target } = shared.state;
    const [row, column] = [unitWith(grid.rows, target), unitWith(grid.columns, source)];
    if (row >= 0) return { side: "target", n: row };
    return column >= 0 ? { side: "source", n: column } : null;
  };
  const lit = () => grid && (pinned() || pointed);
  const verbs = () => VERBS[shared.state.links === "attribution" ? "owes" : "looks"];

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    const found = await linksOf(shared);
    if (mine !== run) return;
    grid = found;
    replaceControls(controls, linksChoice(shared));
    stage.classList.toggle("missing", !grid);
    if (!grid) {
      lead.textContent = LEFT_OUT_HEADS;
      return;
    }
    for (const side of ["source", "target"]) showWords(side);
    redraw();
  }

  function redraw() {
    arrange();
    shine();
  }

  function showWords(side) {
    const had = lines[side].contains(active(element)) && pointed;
    lines[side].dir = direction(shared.header[side].text);
    const words = unitsOn(side).map((unit, n) =>
      h("button", {
        type: "button", class: unit.special ? "word special" : "word",
        pointerenter: () => point({ side, n }), pointerleave: () => point(null), focus: () => point({ side, n }),
        blur: (event) => stage.contains(event.relatedTarget) || point(null), click: () => pin({ side, n }),
      }, h("bdi", { class: "label" }, spelt(unit.text, !shared.state.words)), h("span", { class: "share" })));
    replace(lines[side], words);
    const chosen = pinned();
    rove(words, chosen && chosen.side === side ? chosen.n : 0);
    if (had && words[had.n]) words[had.n].focus();
  }

  // Large type if both lines fit, then smaller type, then two columns, then running text with colours instead of links.
  function arrange() {
    const tall = Math.max(grid.rows.length, grid.columns.length) > TALLEST_COLUMN;
    for (const layout of LAYOUTS) {
      stage.dataset.layout = layout;
      if (layout === "columns" ? !tall && fits(stage) : fits(lines.source) && fits(lines.target)) break;
    }
    drawLinks();
  }

  function fits(element) {
    return element.scrollWidth <= element.clientWidth + 1;
  }

  function drawLinks() {
    const upright = stage.dataset.layout === "columns";
    const whole = stage.getBoundingClientRect();
    drawn = stage.dataset.layout === "text" ? [] : linksAbove(grid).map((link) => ({ ...link, path: s("path", {}) }));
    const place = (side, n) => {
      const box = lines[side].children[n].querySelector(".label").getBoundingClientRect();
      const [x, y] = [box.left - whole.left, box.top - whole.top];
      if (upright) return [side === "source" ? x + box.width + 8 : x - 8, y + box.height / 2];
      return [x + box.width / 2, side === "source" ? y + box.height + 4 : y - 4];
    };
    for (const { row, column, weight, best, path } of drawn) {
      path.setAttribute("d", curve(place("source", column), place("target", row), upright));
      path.setAttribute("stroke-width", (1 + 7 * weight).toFixed(2));
      path.setAttribute("class", best ? "best" : "");
      path.style.setProperty("--weight", weight.toFixed(3));
    }
    replace(links, drawn.map((link) => link.path));
  }

  // ── highlighting ──────────────────────────────────────────────────────────────────────────────────────────────────

  function point(word) {
    pointed = word;
    if (grid && !pinned()) shine();
  }

  function pin({ side, n }) {
    const now = pinned();
    const same = now && now.side === side && now.n === n;
    const other = side === "source" ? "target" : "source";
    shared.choose({ [side]: same ? null : unitsOn(side)[n].pieces[0], [other]: null });
  }

  function shine() {
    const word = lit();
    stage.classList.toggle("lit", Boolean(word));
    const weights = word && weightsOf(grid, word);
    for (const side of ["source", "target"]) {
      [...lines[side].children].forEach((button, n) => {
        const itself = word && word.side === side && word.n === n;
        tint(button, word && word.side !== side ? weights[n] : null, itself);
        button.setAttribute("aria-pressed", Boolean(itself && pinned()));
      });
    }
    for (const link of drawn) {
      const end = word && (word.side === "target" ? link.row : link.column);
      link.path.classList.toggle("shown", Boolean(word) && end === word.n);
    }
    tell(word, weights);
  }

  function tint(button, weight, itself) {
    const share = button.lastChild;
    button.classList.toggle("itself", Boolean(itself));
    button.classList.toggle("partner", weight !== null && weight >= 0.005);
    share.textContent = weight !== null && weight >= 0.005 ? percent(weight) : "";
    button.style.setProperty("--tint", weight === null ? "transparent" : css(shared.colours.weight(weight)));
    button.style.setProperty("--on", weight === null ? "inherit" : shared.colours.onWeight(weight));
  }

  function tell(word, weights) {
    if (!word) {
      const hint = "Hover over a word to see its links; click to pin it.";
      replace(lead, `Each word and the word it ${verbs().most}`, h("small", {}, hint));
      showPairs(bars, grid, !shared.state.words);
      return;
    }
    const others = word.side === "target" ? grid.columns : grid.rows;
    const text = visible(unitsOn(word.side)[word.n].text);
    const does = verbs()[word.side];
    const ranked = heaviest(weights, 6);
    replace(lead, h("bdi", {}, `‘${text}’`), ` ${does}`, h("small", {}, certainty(word)));
    showBars(bars, others, ranked, !shared.state.words, restOf(word, ranked));
    const named = ranked.slice(0, 3).map(([n, weight]) => `‘${visible(others[n].text)}’ ${exact(weight)}`);
    shared.say(`‘${text}’ ${does} ${named.join(", ")} (${sourceOfLinks(shared)})`);
  }

  function certainty(word) {
    if (word.side === "source") return `Each number is a share of ${verbs().whole}.`;
    const written = grid.rows[word.n].pieces.filter((n) => n >= firstRow(shared.header));
    const all = written.reduce((sum, n) => sum + sureOf(shared.header, n), 0);
    return written.length ? `written with probability ${exact(Math.exp(all))}` : "";
  }

  function restOf(word, ranked) {
    const left = unitsOn(word.side === "target" ? "source" : "target").length - ranked.length;
    if (word.side === "source" || left <= 0) return null;
    return `${left} more: ${exact(Math.max(0, 1 - ranked.reduce((sum, [, weight]) => sum + weight, 0)))}`;
  }

  // ── keys, files ───────────────────────────────────────────────────────────────────────────────────────────────────

  stage.addEventListener("keydown", (event) => {
    const from = pointed || lit();
    const to = from && neighbour(grid, from, event.key, lines[from.side].dir === "rtl");
    if (!to) return;
    event.preventDefault();
    const held = pinned();
    lines[to.side].children[to.n].focus();
    if (held) pin(to);
  });

  return {
    element,
    update,
    resize: () => grid && redraw(),
    repaint: () => grid && shine(),
    table: () => alignTable(grid),
    picture: () => alignPicture(shared, grid, linksAbove(grid), sourceOfLinks(shared)),
  };
}

function line(label) {
  return h("div", { class: `line ${label.toLowerCase()}`, role: "group", "aria-label": label });
}

function curve([x, y], [u, v], upright) {
  const [a, b] = upright ? [(x + u) / 2, (x + u) / 2] : [(y + v) / 2, (y + v) / 2];
  return upright ? `M${x},${y}C${a},${y} ${b},${v} ${u},${v}` : `M${x},${y}C${x},${a} ${u},${b} ${u},${v}`;
}

// ── the numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────

export function sourceOfLinks({ header, state }) {
  if (state.links === "all") return "mean of all layers and heads";
  if (state.links === "attribution") return `${METHODS[state.method]}, shares of the absolute values`;
  const { layer, head } = state.links === "best" ? header.reading : state;
  const late = state.links === "best" && header.reading.shift ? ", as each word is read" : "";
  return headName(layer, head) + late;
}

// In a graph, only the vertices on the path are words of the translation.
function alongPath(grid, { graph }) {
  if (!grid || !graph) return grid;
  const kept = [...grid.rows.keys()].filter((row) => grid.rows[row].pieces.some((n) => graph.path.includes(n)));
  const values = Float64Array.from(kept.flatMap((row) => [...rowOf(grid, row)]));
  return { ...grid, rows: kept.map((row) => grid.rows[row]), values };
}

export async function linksOf(shared) {
  return alongPath(await everyLink(shared), shared.header);
}

async function everyLink(shared) {
  const { header, state } = shared;
  if (state.links === "all") return meanGrid(shared);
  if (state.links === "attribution") return linksByAttribution(shared) || meanGrid(shared);
  const { layer, head, shift } = state.links === "best" ? header.reading : { ...state, shift: 0 };
  const grid = await gridOf(shared, "cross", layer, head, shift);
  return grid && grid.block === 1 ? grid : null;
}

export function linksChoice(shared) {
  const { header, state } = shared;
  const best = header.reading ? [["best", "best head", "The alignment head named in the model’s recipe"]] : [];
  const methods = Object.entries(METHODS).filter(([method]) => attributionsOf(shared)[method]);
  const owed = methods.length ? [["attribution", "attribution", "How much each source word contributes to each word"]] : [];
  const options = [...best, ["all", "mean of all"], ["head", "this head"], ...owed];
  const from = choice("Links from", options, state.links, (links) => shared.choose({ links }));
  const choosers = {
    head: () => [layerChoice(shared, "cross"), headChoice(shared)],
    attribution: () => [choice("Method", methods, state.method, (method) => shared.choose({ method }))],
  }[state.links];
  return [from, ...(choosers ? choosers() : []), h("span", { class: "aside" }, sourceOfLinks(shared))];
}

// The heaviest links, lightest first so that heavy ones are drawn on top. `best` marks the heaviest of a target word.
function linksAbove(grid) {
  const found = grid.rows.flatMap((_, row) => {
    const weights = rowOf(grid, row);
    const top = heaviest(weights, 1)[0][0];
    const all = [...weights].map((weight, column) => ({ row, column, weight, best: column === top }));
    return all.filter((link) => link.weight >= LIGHTEST);
  });
  return found.sort((a, b) => a.weight - b.weight).slice(-MOST_LINKS);
}

function weightsOf(grid, { side, n }) {
  return side === "target" ? rowOf(grid, n) : columnOf(grid, n);
}

function neighbour(grid, { side, n }, key, mirrored) {
  const count = (side === "target" ? grid.rows : grid.columns).length;
  const along = { ArrowLeft: mirrored ? 1 : -1, ArrowRight: mirrored ? -1 : 1 }[key];
  if (along) return { side, n: (n + along + count) % count };
  const across = { ArrowUp: "source", ArrowDown: "target" }[key];
  if (!across || across === side) return null;
  return { side: across, n: heaviest(weightsOf(grid, { side, n }), 1)[0][0] };
}

function alignTable(grid) {
  const pairs = (row, r) => [...rowOf(grid, r)].map((weight, c) => [row.text, grid.columns[c].text, weight.toFixed(6)]);
  return [["target", "source", "weight"], ...grid.rows.flatMap(pairs)];
}
