// Text of pieces and words, with what leaves no ink made visible: ‹U+202E›. Without it a hostile line could turn
// itself around, and a blank word could not be pointed at.

import { h } from "./dom.js";

const JOINERS = "\u200c\u200d"; // without them Persian, Hindi and many a sign would be spelt wrong
const UNSEEN = /([\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\ufffe\uffff])/u; // the last two may not stand in an SVG at all
const BYTE = /(‹[0-9a-f]{2}›)/;
const RIGHT_TO_LEFT = /^[^\p{L}]*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
export const BLANK = "␣";

function codePoint(letter) {
  return `‹U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;
}

// The text in stretches, [text, is it a mark of ours?].
function stretches(text) {
  return text.split(UNSEEN).flatMap((part, n) => {
    if (n % 2 && !JOINERS.includes(part)) return [[codePoint(part), true]];
    return part.split(BYTE).map((piece, m) => [piece, m % 2 === 1]);
  });
}

// Without the blanks at its rim, and only those: a tab or a line separator has a mark of its own.
function bare(text) {
  return text.replace(/^ +| +$/g, "");
}

// As plain text, for labels on a canvas and for files.
export function visible(text) {
  const inner = bare(text);
  return inner ? stretches(inner).map(([part]) => part).join("") : BLANK.repeat(Math.max(1, text.length));
}

// As nodes: marks stand apart from letters. `blanks` shows the blank that a piece begins with.
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
