// One board of the head report: one kind of attention, layers downwards, heads to the right. A cell shows the head's
// number and role.

import { css } from "./colour.js";
import { h } from "./dom.js";
import { FIGURES, isSure, nameInReport, ROLES_OF_HEADS, roleOf, shownFigure } from "./headfigures.js";
import { hueOf } from "./hues.js";
import { ROLES_OF_TWO } from "./models.js";

// look: {heads, figure, role, place(head), colours, chosen(head)}; acts: {open, tell, point, leave}
export function headBoard(kind, look, acts) {
  const mine = look.heads.filter((one) => one.kind === kind);
  const [layers, across] = ["layer", "head"].map((side) => 1 + Math.max(...mine.map((one) => one[side])));
  const corners = ["layer", ...Array(across).keys()].map((text) => h("span", { class: "corner" }, String(text)));
  const rows = [...Array(layers).keys()].map((layer) => [
    h("span", { class: "corner" }, String(layer)),
    ...mine.filter((one) => one.layer === layer).map((one) => headCell(one, look, acts)),
  ]);
  const grid = h("div", { class: "role-grid", role: "group", "aria-label": kind }, corners, rows.flat());
  grid.style.setProperty("--heads", across);
  return h("section", { class: "role-board" }, h("p", { class: "lead" }, kind, h("small", {}, ROLES_OF_TWO[kind])), grid);
}

function headCell(one, { figure, role, place, colours, chosen }, { open, tell, point, leave }) {
  const { short, sign, hue } = ROLES_OF_HEADS[one.role];
  const standing = place(one);
  const look = ["head-cell", isSure(one, figure) ? "sure" : "", role && role !== one.role ? "dimmed" : ""];
  const acts = {
    click: () => open(one), focus: () => tell(one),
    pointermove: (event) => point(one, event), pointerleave: leave,
  };
  const cell = h("button", {
    type: "button", class: look.filter(Boolean).join(" "), tabindex: -1, ...acts,
    "aria-label": `${nameInReport(one)}, ${roleOf(one)}`, "aria-current": chosen(one) ? "true" : null,
  },
  h("span", { class: "value" }, shownFigure(one, figure)),
  h("span", { class: "role" }, h("i", { "aria-hidden": "true" }, sign), h("span", {}, short)));
  const scale = FIGURES[figure].lost ? [colours.signed, colours.onSigned] : [colours.weight, colours.onWeight];
  if (standing !== null) {
    cell.style.setProperty("--tint", css(scale[0](standing)));
    cell.style.setProperty("--on", scale[1](standing));
  }
  cell.style.setProperty("--role", hue === null ? "var(--line)" : hueOf(hue, colours.theme));
  return cell;
}
