// Text of pieces and words, with invisible characters made visible: ‹U+202E›. Otherwise hostile text could reverse
// itself, and a blank word could not be seen or clicked.

import { h } from "./dom.js";

const JOINERS = "\u200c\u200d"; // needed to spell Persian, Hindi and some emoji correctly
const UNSEEN = /([\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\ufffe\uffff])/u; // the last two are not allowed in an SVG
const BYTE = /(‹[0-9a-f]{2}›)/;
const RIGHT_TO_LEFT = /^[^\p{L}]*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
export const BLANK = "␣";

function codePoint(letter) {
  return `‹U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;
}

// The text in stretches: [text, whether it is an escape such as ‹U+202E›].
function stretches(text) {
  return text.split(UNSEEN).flatMap((part, n) => {
    if (n % 2 && !JOINERS.includes(part)) return [[codePoint(part), true]];
    return part.split(BYTE).map((piece, m) => [piece, m % 2 === 1]);
  });
}

// Strips leading and trailing blanks, and only blanks: tabs and line separators get escapes of their own.
function bare(text) {
  return text.replace(/^ +| +$/g, "");
}

// The text as a plain string, for labels on a canvas and for files.
export function visible(text) {
  const inner = bare(text);
  return inner ? stretches(inner).map(([part]) => part).join("") : BLANK.repeat(Math.max(1, text.length));
}

// The text as nodes, with escapes set apart. `blanks` shows the blank that a piece starts with.
export function spelt(text, blanks = false) {
  const inner = bare(text);
  const front = blanks || !inner ? Math.max(text.length - text.replace(/^ +/, "").length, inner ? 0 : 1) : 0;
  return [
    ...[...Array(front)].map(() => h("i", { class: "blank" }, BLANK)),
    ...stretches(inner).filter(([part]) => part).map(([part, mark]) => (mark ? h("i", { class: "chip" }, part) : part)),
  ];
}

export function shortened(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

export function direction(text) {
  return RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr";
}
