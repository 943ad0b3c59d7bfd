// Texts about the pieces of a text: how it was split, where it comes from, which of its characters are invisible.

import { h } from "./dom.js";
import { visible } from "./letters.js";
import { speltSides } from "./models.js";

const TOKENIZER_NAMES = {
  WordPiece: "WordPiece: words and parts of words; ## marks continuations",
  BPE: "byte-pair encoding: parts of words",
  bpe: "byte-pair encoding: parts of words",
  characters: "one piece per character",
  symbols: "one piece per symbol between blanks",
};
const MOST_MARKS = 100;

export function tokenizerName({ spelling }, side) {
  const { tokenizer, size } = spelling[side];
  const shared = spelling.joint ? ", shared by both sides" : "";
  return `${TOKENIZER_NAMES[tokenizer] || tokenizer}; vocabulary of ${size.toLocaleString("en")}${shared}`;
}

// [what the text is, how it was changed or where it was taken from]
export function toldOf(header, side) {
  const { typed, start } = header.spelling[side];
  const { text } = header[side];
  if (header.given) {
    const whose = header.forced ? "it was made to write the rest" : "it wrote the rest by itself";
    return ["read and written", `${header.given} pieces were given to the model; ${whose}`];
  }
  if (header.spelling[side].tokenizer === "WordPiece") {
    return ["typed", "normalised before it is split: accents and capitals may be lost, and unknown words become [UNK]"];
  }
  if (typed === null) return ["written by the model", "the text that its pieces spell"];
  if (typed === text) return ["typed and read unchanged", "nothing is normalised"];
  const length = [...text].length;
  if (side === "source" && header.parts > 1) {
    const where = start === null ? "" : `, characters ${start} to ${start + length} of the typed text`;
    return ["read", `part ${header.part} of ${header.parts}${where}`];
  }
  if (typed.split("\n").join(" ") === text) return ["read", "line breaks became blanks, nothing else has changed"];
  return ["read", start === null ? "differs from the typed text" : `characters ${start} to ${start + length} of the typed text`];
}

export function marksIn(marks, piece) {
  return marks.filter((mark) => mark.at >= piece.start && mark.at < piece.end);
}

// A real HTML table, for screen readers.
export function markTable(marks, side) {
  if (!marks.length) return h("p", { class: "note" }, "All characters of this text are visible.");
  const piecesAt = (at) => side.pieces.filter((piece) => piece.start <= at && at < piece.end).length;
  const row = (mark) => h("tr", {}, h("th", { scope: "row" }, mark.code),
    [mark.name, mark.kind, `${mark.at}`, `${piecesAt(mark.at)}`].map((text) => h("td", {}, text)));
  const columns = ["character", "name", "kind", "place", "pieces"];
  const more = marks.length - MOST_MARKS;
  return h("div", { class: "wide" }, h("table", { class: "plain-table" },
    h("caption", {}, `Invisible or direction-changing characters: ${marks.length}`),
    h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, marks.slice(0, MOST_MARKS).map(row))),
  more > 0 ? h("p", { class: "note" }, `${more} more`) : null);
}

export function piecesTable(header) {
  const rows = speltSides(header).flatMap((side) => header[side].pieces.map((piece, n) => [
    side, n, piece.text, piece.id, header.spelling[side].bytes[n], piece.start, piece.end, piece.word,
    visible(header[side].words[piece.word].text),
    marksIn(header.spelling[side].marks, piece).map((mark) => `${mark.code} ${mark.name}`).join("; "),
  ]));
  return [["side", "n", "piece", "id", "bytes", "start", "end", "word", "word_text", "unseen"], ...rows];
}
