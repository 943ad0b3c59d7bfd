// All figures of the head report, as a table that can be sorted by any column.

import { h } from "./dom.js";
import { FIGURES, figureNames, isSure, nameInReport, reported, roleOf, ROLES_OF_HEADS } from "./headfigures.js";
import { shownFigure } from "./headfigures.js";
import { exact } from "./numbers.js";

const PLAIN_COLUMNS = { head: "head", role: "role" };

// acts: {open(head), sortBy(column)}
export function headsTable(heads, { sort, up, role, chosen }, { open, sortBy }) {
  const heading = (column) => {
    const name = PLAIN_COLUMNS[column] || FIGURES[column].name;
    const order = column === sort ? (up ? "ascending" : "descending") : "none";
    const mark = { none: "", ascending: " ↑", descending: " ↓" }[order];
    return h("th", { scope: "col", "aria-sort": order },
      h("button", { type: "button", "aria-label": `Sort by ${name}`, click: () => sortBy(column) }, name + mark));
  };
  const number = (one, figure) => {
    const look = { class: isSure(one, figure) ? "sure" : null, title: doubt(one, figure) };
    return h("td", look, shownFigure(one, figure, !FIGURES[figure].lost || figure === "log_probability"));
  };
  const row = (one) => {
    const name = { type: "button", title: "Open in the matrix", click: () => open(one) };
    const look = [role && role !== one.role ? "dimmed" : "", chosen(one) ? "selected" : ""].join(" ");
    return h("tr", { class: look },
      h("th", { scope: "row" }, h("button", name, nameInReport(one))),
      h("td", { class: "role" }, h("i", { "aria-hidden": "true" }, ROLES_OF_HEADS[one.role].sign), " ", roleOf(one)),
      figureNames.map((figure) => number(one, figure)));
  };
  return h("table", { class: "heads-table" },
    h("caption", { class: "unseen" }, "All heads of the model with all figures"),
    h("thead", {}, h("tr", {}, [...Object.keys(PLAIN_COLUMNS), ...figureNames].map(heading))),
    h("tbody", {}, heads.map(row)));
}

// The uncertainty of a figure, if it was measured.
export function doubt(one, figure) {
  if (figure === "log_probability") {
    const error = one.lost.log_probability_error;
    return error === null ? null : `± ${exact(error)}`;
  }
  const p = one.lost[`${figure}_p`];
  return FIGURES[figure].lost && p !== null ? `p = ${exact(p)}` : null;
}

// The table for a file, including uncertainties.
export function headsAsRows(heads) {
  const number = (value) => (value === undefined || value === null ? "" : value.toFixed(6));
  const sure = ["log_probability_error", "bleu_p", "chrf_p"];
  const named = figureNames.map((name) => (FIGURES[name].lost ? `${name}_lost` : name));
  const row = (one) => [
    one.kind, one.layer, one.head, one.role, Number(one.read),
    ...figureNames.map((name) => number(reported(one, name))), ...sure.map((name) => number(one.lost[name])),
  ];
  return [["kind", "layer", "head", "role", "read", ...named, ...sure], ...heads.map(row)];
}
