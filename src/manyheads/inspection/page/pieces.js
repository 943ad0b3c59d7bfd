// View 15, text to pieces: the typed text, the text that the model reads, its pieces with their ids and bytes, and the
// same for the output. Invisible characters are named.

import { active, h, replace, rove } from "./dom.js";
import { direction, spelt, visible } from "./letters.js";
import { nameOfSide, speltSides } from "./models.js";
import { clamp } from "./numbers.js";
import { marksIn, markTable, piecesTable, toldOf, tokenizerName } from "./piecesfacts.js";
import { piecesPicture } from "./piecespicture.js";
import { makeTip } from "./tip.js";

const MOST_TYPED = 2000; // characters of the typed text that are shown

export function piecesView(shared) {
  const { header } = shared;
  const there = speltSides(header);
  const sides = Object.fromEntries(there.map((side) => [side, makeSide(side)]));
  const element = h("div", { class: "spelling" }, there.map((side) => sides[side].section));
  const tip = makeTip(element);

  function makeSide(side) {
    const text = h("p", { class: "typed", dir: "auto" });
    const tiles = h("div", { class: "tiles", role: "group", "aria-label": `Pieces of the ${nameOfSide(header, side).toLowerCase()}` });
    const [about, place] = toldOf(header, side);
    const typed = header.spelling[side].typed;
    const whole = typed !== null && typed !== header[side].text;
    const section = h("section", {},
      h("h3", {}, nameOfSide(header, side), h("small", {}, tokenizerName(header, side))),
      whole ? stage("typed", h("p", { class: "typed", dir: "auto" }, typedText(header.spelling[side]))) : null,
      stage(about, text, place),
      stage("pieces", tiles, "each with its id, its bytes and the range of characters it stands for"),
      markTable(header.spelling[side].marks, header[side]));
    return { section, text, tiles };
  }

  const unseenOn = (side) => {
    const letters = [...header[side].text];
    return new Map(header.spelling[side].marks.map((mark) => [letters[mark.at], mark]));
  };
  const chosenOn = (side) => shared.state[side];

  function update() {
    for (const side of there) {
      const { tiles, text } = sides[side];
      const used = tiles.contains(active(element));
      tiles.dir = direction(header[side].text);
      const buttons = header[side].pieces.map((piece, n) => tile(side, piece, n));
      replace(tiles, grouped(header[side].pieces, buttons));
      rove(buttons, chosenOn(side) || 0);
      if (used && chosenOn(side) !== null) buttons[chosenOn(side)].focus();
      light(side, chosenOn(side));
    }
    const last = there.find((side) => chosenOn(side) !== null);
    if (last) shared.say(sentence(last, chosenOn(last)));
  }

  function tile(side, piece, n) {
    const point = (event) => {
      light(side, n);
      shared.say(sentence(side, n));
      if (event.clientX !== undefined) tip.show(event, h("b", {}, `${piece.id}`), h("bdi", {}, sentence(side, n)));
    };
    const leave = () => {
      light(side, chosenOn(side));
      tip.hide();
    };
    const special = header[side].words[piece.word].special;
    return h("button", {
      type: "button", class: special ? "tile special-tile" : "tile", "aria-label": sentence(side, n),
      "aria-pressed": String(chosenOn(side) === n), pointermove: point, pointerleave: leave, focus: point, blur: leave,
      click: () => shared.choose({ [side]: chosenOn(side) === n ? null : n }),
    },
    h("bdi", { class: "label" }, lettersOf(piece.text, unseenOn(side))),
    h("span", { class: "id" }, `${piece.id}`),
    h("span", { class: "bytes" }, header.spelling[side].bytes[n] || "–"),
    h("span", { class: "span" }, special ? "–" : `${piece.start}–${piece.end}`));
  }

  // Highlights the part of the text that a piece stands for.
  function light(side, n) {
    const { text, pieces } = header[side];
    const piece = n === null ? null : pieces[n];
    replace(sides[side].text, withMarks(text, header.spelling[side].marks, piece && [piece.start, piece.end]));
  }

  function sentence(side, n) {
    const [piece, bytes] = [header[side].pieces[n], header.spelling[side].bytes[n]];
    const word = header[side].words[piece.word];
    const name = `${side} piece ${n + 1} of ${header[side].pieces.length}: ‘${visible(piece.text)}’, id ${piece.id}`;
    if (word.special) return `${name}: stands for no text`;
    const unseen = marksIn(header.spelling[side].marks, piece).map((mark) => `${mark.code} ${mark.name}`);
    const more = unseen.length ? `; ${unseen.join(", ")}` : "";
    const place = `characters ${piece.start} to ${piece.end}, word ${piece.word + 1}`;
    return `${name}; bytes ${bytes || "none"}; ${place}${more}`;
  }

  element.addEventListener("keydown", (event) => {
    const side = there.find((one) => sides[one].tiles.contains(event.target));
    if (!side) return;
    const buttons = [...sides[side].tiles.querySelectorAll("button")];
    const mirrored = sides[side].tiles.dir === "rtl" ? -1 : 1;
    const by = { ArrowLeft: -mirrored, ArrowRight: mirrored }[event.key];
    const other = there[{ ArrowUp: 0, ArrowDown: 1 }[event.key]];
    if (!by && !other) return;
    event.preventDefault();
    const to = other ? [...sides[other].tiles.querySelectorAll("button")] : buttons;
    to[clamp(buttons.indexOf(event.target) + (by || 0), 0, to.length - 1)].focus();
  });

  return {
    element,
    update,
    resize: () => {},
    repaint: () => {},
    table: () => piecesTable(header),
    picture: () => piecesPicture(header),
  };
}

// The text of a piece, with a chip for every invisible character.
function lettersOf(text, unseen) {
  const parts = [...text].reduce((found, letter) => {
    const last = found[found.length - 1];
    if (unseen.has(letter)) return [...found, { mark: unseen.get(letter) }, { text: "" }];
    return [...found.slice(0, -1), { text: last.text + letter }];
  }, [{ text: "" }]);
  const nodes = parts.filter((part) => part.mark || part.text).map((part) =>
    (part.mark ? chipOf(part.mark) : spelt(part.text, true)));
  return nodes.flat();
}

function chipOf(mark) {
  return h("i", { class: "chip", title: mark.name }, `‹${mark.code}›`);
}

function stage(name, content, about = "") {
  return h("div", { class: "stage-of" }, h("p", { class: "aside" }, name, about ? ` (${about})` : ""), content);
}

function typedText({ typed, typed_marks: marks }) {
  const letters = [...typed];
  const shown = letters.slice(0, MOST_TYPED).join("");
  const rest = letters.length - MOST_TYPED;
  return [...withMarks(shown, marks, null), rest > 0 ? h("i", { class: "chip" }, `${rest} more`) : null];
}

// Groups the tiles of each word.
function grouped(pieces, buttons) {
  const words = new Map();
  pieces.forEach((piece, n) => words.set(piece.word, [...(words.get(piece.word) || []), buttons[n]]));
  return [...words.values()].map((tiles) => h("span", { class: "tile-word" }, tiles));
}

// Splits a text into stretches: invisible characters become chips with their names, and the lit range stands out.
function withMarks(text, marks, lit) {
  const letters = [...text];
  const marked = new Map(marks.map((mark) => [mark.at, mark]));
  const cuts = [0, letters.length, ...marks.flatMap(({ at }) => [at, at + 1]), ...(lit || [])];
  const places = [...new Set(cuts)].filter((at) => at <= letters.length).sort((a, b) => a - b);
  return places.slice(0, -1).map((from, n) => {
    const mark = marked.get(from);
    const part = letters.slice(from, places[n + 1]).join("");
    const node = mark ? chipOf(mark) : part;
    return lit && from >= lit[0] && from < lit[1] ? h("mark", {}, node) : node;
  });
}
