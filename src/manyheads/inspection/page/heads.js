// View 14, heads: over a test set, where every head attends, its role, and what is lost without it.

import { css } from "./colour.js";
import { choice } from "./controls.js";
import { active, focusNamed, h, nameOf, replace, replaceControls, rove } from "./dom.js";
import { fact } from "./facts.js";
import { headBoard } from "./headboard.js";
import { CHANCE, FIGURES, figureNames, nameInReport, roleOf, ROLES_OF_HEADS, ruleOf, searchName } from "./headfigures.js";
import { shownFigure, sortedHeads, standing } from "./headfigures.js";
import { doubt, headsAsRows, headsTable } from "./headstable.js";
import { headsPicture, noReport } from "./headspicture.js";
import { hueOf } from "./hues.js";
import { exact } from "./numbers.js";
import { sameHead, stepIn } from "./switchblock.js";
import { makeTip } from "./tip.js";
import { KINDS } from "./weights.js";

const COMMAND = "manyheads inspect MODEL --data DEV.tsv --html heads.html";
const HOW_TO_OPEN = "Click a head to open it in the matrix, on this page’s sentence.";

export function headsView(shared) {
  const { report } = shared.header;
  if (!report) return withoutReport();
  const facts = h("dl", { class: "facts" }, factsOn(report));
  const controls = h("div", { class: "controls" });
  const meaning = h("p", { class: "meaning" });
  const roles = h("div", { class: "role-legend", role: "group", "aria-label": "Roles" });
  const boards = h("div", { class: "role-boards" });
  const scale = h("p", { class: "note" });
  const frame = h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "All numbers" });
  const element = h("div", { class: "head-report" }, facts, controls, meaning, roles, boards, scale, frame,
    h("p", { class: "note" }, `${HOW_TO_OPEN} ${ruleOf(report)}`));
  const tip = makeTip(element);
  const { heads } = report;
  const chosen = (one) => sameHead(one, shared.state);

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  function update() {
    const { figure, sort, up, role } = shared.state;
    const used = element.contains(active(element)) && !controls.contains(active(element)) && nameOf(active(element));
    const figures = figureNames.map((name) => [name, FIGURES[name].name, FIGURES[name].text]);
    replaceControls(controls, choice("Coloured by", figures, figure, (next) => shared.choose({ figure: next })));
    meaning.textContent = FIGURES[figure].text;
    replace(roles, Object.keys(ROLES_OF_HEADS).map(legendOf));
    const look = { heads, figure, role, place: standing(heads, figure), colours: shared.colours, chosen };
    replace(boards, KINDS.map((kind) => headBoard(kind, look, { open, tell, point, leave: tip.hide })));
    replace(scale, ...scaleOn(figure).map((part) => [part].flat()));
    replace(frame, headsTable(sortedHeads(heads, sort, up), { sort, up, role, chosen }, { open, sortBy }));
    const cells = [...boards.querySelectorAll(".head-cell")];
    rove(cells, Math.max(0, cells.findIndex((cell) => cell.ariaCurrent === "true")));
    if (used) focusNamed(element, used);
  }

  // A button for a role, with its sign and count. While it is pressed, heads with other roles fade.
  function legendOf(role) {
    const { sign, hue, text } = ROLES_OF_HEADS[role];
    const count = heads.filter((one) => one.role === role).length;
    const pressed = shared.state.role === role;
    const made = h("button", {
      type: "button", "aria-pressed": String(pressed), title: `Attends to ${text}`,
      "aria-label": `${role}: ${count} heads`, click: () => shared.choose({ role: pressed ? null : role }),
    }, h("i", { "aria-hidden": "true" }, sign), role, h("small", {}, ` ${count}`));
    made.style.setProperty("--role", hue === null ? "var(--line)" : hueOf(hue, shared.colours.theme));
    return made;
  }

  function scaleOn(figure) {
    const { colours } = shared;
    const lost = FIGURES[figure].lost;
    const shades = (lost ? [-1, -0.6, -0.3, 0, 0.3, 0.6, 1] : [0, 0.2, 0.4, 0.6, 0.8, 1]).map((value) => {
      const swatch = h("i", { class: "swatch" });
      swatch.style.setProperty("--tint", css(lost ? colours.signed(value) : colours.weight(value)));
      return swatch;
    });
    return lost
      ? ["hurts ", shades, ` helps. Colour grows with the square root. ${boldByChance(heads)}`]
      : ["0 ", shades, FIGURES[figure].whole ? " 1" : " largest of all heads"];
  }

  // ── hovering and opening ──────────────────────────────────────────────────────────────────────────────────────────

  function sentenceOn(one) {
    const known = figureNames.filter((figure) => shownFigure(one, figure) !== "–");
    return `${nameInReport(one)}: ${roleOf(one)}; ${known.map((figure) => told(one, figure)).join(", ")}`;
  }

  function told(one, figure) {
    const more = doubt(one, figure);
    return `${FIGURES[figure].name} ${shownFigure(one, figure, true)}${more ? ` (${more})` : ""}`;
  }

  function tell(one) {
    shared.say(sentenceOn(one));
  }

  function point(one, event) {
    const row = (figure) => h("div", figure === shared.state.figure ? { class: "chosen" } : {},
      h("dt", {}, FIGURES[figure].name),
      h("dd", {}, shownFigure(one, figure, true), h("small", {}, ` ${doubt(one, figure) || ""}`)));
    tip.show(event, h("b", {}, nameInReport(one)), h("small", {}, roleOf(one)),
      h("dl", {}, figureNames.filter((figure) => shownFigure(one, figure) !== "–").map(row)));
    shared.say(sentenceOn(one));
  }

  function open({ kind, layer, head }) {
    shared.choose({ view: "matrix", kind, layer, head });
  }

  function sortBy(column) {
    const { sort, up } = shared.state;
    shared.choose({ sort: column, up: sort === column ? !up : !figureNames.includes(column) });
  }

  // Arrow keys move from head to head, also across boards.
  boards.addEventListener("keydown", (event) => {
    const grids = [...boards.querySelectorAll(".role-grid")];
    const at = grids.findIndex((grid) => grid.contains(event.target));
    if (at < 0) return;
    const rowsOf = (grid) => {
      const cells = [...grid.querySelectorAll(".head-cell")];
      const across = Number(grid.style.getPropertyValue("--heads"));
      return [...Array(cells.length / across).keys()].map((n) => cells.slice(n * across, (n + 1) * across));
    };
    const rows = grids.map(rowsOf);
    const line = Math.max(...rows[at].map((row, n) => (row.includes(event.target) ? n : -1)));
    const beside = rows.map((board) => board[Math.min(line, board.length - 1)]).flat();
    const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
    stepIn(sideways ? [beside] : rows[at], event);
    const cells = rows.flat(2);
    rove(cells, Math.max(0, cells.indexOf(active(element))));
  });

  return {
    element,
    update,
    resize: () => {},
    repaint: update,
    table: () => headsAsRows(heads),
    picture: () => headsPicture(shared.header, shared.state.figure),
  };
}

// A test of many heads gives some false positives.
function boldByChance(heads) {
  const count = heads.length;
  if (heads.some((one) => one.lost.bleu_p === null)) return "These are few pairs: differences in BLEU and chrF may be chance.";
  return `Of ${count} heads, about ${Math.max(1, Math.round(CHANCE * count))} would be bold by chance alone.`;
}

function factsOn(report) {
  const { pairs, of, bleu, chrf, log_probability: logProbability } = report;
  return [
    fact("pairs", `${pairs.toLocaleString("en")} of ${of.toLocaleString("en")}`),
    fact("BLEU", bleu.toFixed(2)), fact("chrF", chrf.toFixed(2)),
    fact("log-probability per piece", exact(logProbability).replace("-", "−")),
    fact("search", searchName(report)),
  ];
}

function withoutReport() {
  const element = h("div", { class: "head-report" },
    h("p", { class: "lead" }, "This page has no head report",
      h("small", {}, "A head report shows the role of every head over a test set, and what is lost without it. To make one:")),
    h("p", {}, h("code", {}, COMMAND)),
    h("p", { class: "note" }, "In Python: inspect(model, text, report=report_heads(model, pairs))."));
  const still = { update: () => {}, resize: () => {}, repaint: () => {} };
  return { element, ...still, table: () => headsAsRows([]), picture: noReport };
}
