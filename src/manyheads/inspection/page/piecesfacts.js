// What is told about the pieces of a text: how it was cut, where it comes from, which of its characters have no ink.

import { h } from "./dom.js";
import { visible } from "./letters.js";
import { speltSides } from "./models.js";

const TOKENIZER_NAMES = {
  WordPiece: "WordPiece: words, and pieces of words that go on with ##",
  BPE: "byte pairs: pieces of words",
  bpe: "byte pairs: pieces of words",
  characters: "one piece a character",
  symbols: "one piece for what stands between blanks",
};
const MOST_MARKS = 100;

export function tokenizerName({ spelling }, side) {
  const { tokenizer, size } = spelling[side];
  const shared = spelling.joint ? ", shared by both sides" : "";
  return `${TOKENIZER_NAMES[tokenizer] || tokenizer}; ${size.toLocaleString("en")} in all${shared}`;
}

// [what the text is, what happened to it on its way]
export function toldOf(header, side) {
  const { typed, start } = header.spelling[side];
  const { text } = header[side];
  if (header.given) {
    const whose = header.forced ? "it was made to write the rest" : "it wrote the rest by itself";
    return ["read, and written", `${header.given} pieces were given to the model; ${whose}`];
  }
  if (header.spelling[side].tokenizer === "WordPiece") {
    return ["typed", "it is normalised before it is cut: accents and capitals may go, and what has no piece is [UNK]"];
  }
  if (typed === null) return ["written by the model", "what its pieces spell"];
  if (typed === text) return ["typed, and read as it is", "nothing is normalised"];
  const length = [...text].length;
  if (side === "source" && header.parts > 1) {
    const where = start === null ? "" : `, characters ${start} to ${start + length} of what was typed`;
    return ["read", `part ${header.part} of ${header.parts}${where}`];
  }
  if (typed.split("\n").join(" ") === text) return ["read", "line ends became blanks, nothing else has changed"];
  return ["read", start === null ? "it differs from what was typed" : `characters ${start} to ${start + length} of it`];
}

export function marksIn(marks, piece) {
  return marks.filter((mark) => mark.at >= piece.start && mark.at < piece.end);
}

// A real table: it can be read aloud.
export function markTable(marks, side) {
  if (!marks.length) return h("p", { class: "note" }, "Every character of it can be seen.");
  const piecesAt = (at) => side.pieces.filter((piece) => piece.start <= at && at < piece.end).length;
  const row = (mark) => h("tr", {}, h("th", { scope: "row" }, mark.code),
    [mark.name, mark.kind, `${mark.at}`, `${piecesAt(mark.at)}`].map((text) => h("td", {}, text)));
  const columns = ["character", "name", "kind", "place", "pieces"];
  const more = marks.length - MOST_MARKS;
  return h("div", { class: "wide" }, h("table", { class: "plain-table" },
    h("caption", {}, `Characters that cannot be seen, or that turn others around: ${marks.length}`),
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
