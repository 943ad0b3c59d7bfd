// View 14 as a picture file: three boards, coloured by a figure, with the role of each head in words.

import { coloursFor, hex } from "./colour.js";
import { s } from "./dom.js";
import { FIGURES, isSure, nameInReport, ROLES_OF_HEADS, roleOf, searchName } from "./headfigures.js";
import { shownFigure, standing } from "./headfigures.js";
import { visible } from "./letters.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";
import { KINDS } from "./weights.js";

const [WIDE_CELL, HIGH_CELL, BETWEEN_BOARDS, ABOVE_BOARDS] = [66, 38, 46, 64];

export function headsPicture({ report, model }, figure) {
  const { heads } = report;
  const across = (kind) => 1 + Math.max(...heads.filter((one) => one.kind === kind).map((one) => one.head));
  const deepest = 1 + Math.max(...heads.map((one) => one.layer));
  const room = (kind) => across(kind) * WIDE_CELL + BETWEEN_BOARDS;
  const left = KINDS.map((_, n) => 40 + KINDS.slice(0, n).reduce((sum, kind) => sum + room(kind), 0));
  const width = left[2] + across("cross") * WIDE_CELL + 20;
  const used = `${report.pairs} of ${report.of} pairs, ${searchName(report)} search, BLEU ${report.bleu.toFixed(2)}`;
  const what = `${FIGURES[figure].name}, and roles (${report.share} of the weight)`;
  const caption = `${visible(model.name || "model")}: ${what}; ${used}`;
  const wide = Math.ceil(Math.max(width, textWidth(caption, "11px sans-serif") * 1.1 + 32));
  const picture = sheet(wide, ABOVE_BOARDS + HIGH_CELL * deepest + 44, caption);
  const [place, colours] = [standing(heads, figure), coloursFor("light")];
  const small = { "font-size": 11, fill: INK.soft };
  const number = (n) =>
    s("text", { x: (n + 0.5) * WIDE_CELL - 1, y: -8, "text-anchor": "middle", ...small }, String(n));
  KINDS.forEach((kind, n) => picture.append(s("g", { transform: `translate(${left[n]},${ABOVE_BOARDS})` },
    s("text", { y: -30, "font-size": 14 }, kind), [...Array(across(kind)).keys()].map(number),
    heads.filter((one) => one.kind === kind).map((one) => drawnHead(one, figure, place(one), colours)))));
  return picture;
}

function drawnHead(one, figure, standingOf, colours) {
  const lost = FIGURES[figure].lost;
  const fill = standingOf === null ? INK.paper : hex(lost ? colours.signed(standingOf) : colours.weight(standingOf));
  const ink = standingOf === null ? INK.soft : lost ? colours.onSigned(standingOf) : colours.onWeight(standingOf);
  const [x, y] = [one.head * WIDE_CELL, one.layer * HIGH_CELL];
  const middle = { x: WIDE_CELL / 2 - 1, "text-anchor": "middle", fill: ink };
  const aside = { x: -8, y: HIGH_CELL / 2 + 3, "text-anchor": "end", "font-size": 11, fill: INK.soft };
  const weight = isSure(one, figure) ? 700 : 400;
  const { sign, short } = ROLES_OF_HEADS[one.role];
  return s("g", { transform: `translate(${x},${y})` },
    s("title", {}, `${nameInReport(one)}: ${roleOf(one)}`),
    one.head === 0 ? s("text", aside, String(one.layer)) : null,
    s("rect", { width: WIDE_CELL - 2, height: HIGH_CELL - 2, rx: 3, fill, stroke: INK.line }),
    s("text", { ...middle, y: short ? 15 : 22, "font-size": 12, "font-weight": weight }, shownFigure(one, figure)),
    s("text", { ...middle, y: 29, "font-size": 10 }, short ? `${sign} ${short}` : ""));
}

export function noReport() {
  return sheet(420, 60, "This page has no head report");
}
