// View 5 as a picture file: a column per step, with the written piece above its candidates.

import { shownOf } from "./candidates.js";
import { s } from "./dom.js";
import { shortened, visible } from "./letters.js";
import { exact } from "./numbers.js";
import { INK, sheet } from "./saving.js";

const [WIDE, TALL, HEADROOM, COLUMNS] = [128, 19, 40, 8]; // column width, candidate height, space above, columns across

export function stepsPicture({ model, steps, target }) {
  const columns = steps.map((step, n) => shownOf(step, target.pieces[n + 1]));
  const deep = HEADROOM + TALL * (Math.max(...columns.map((shown) => shown.length)) + 1);
  const across = Math.min(COLUMNS, steps.length);
  const caption = `${visible(model.name || "model")}: the likeliest pieces of each step; ● was written`;
  const picture = sheet(Math.max(420, 24 + WIDE * across), 40 + deep * Math.ceil(steps.length / COLUMNS), caption);
  columns.forEach((shown, n) => {
    const place = `translate(${16 + WIDE * (n % COLUMNS)},${deep * Math.floor(n / COLUMNS)})`;
    picture.append(s("g", { transform: place }, stepColumn(shown, target.pieces[n + 1], n + 1)));
  });
  return picture;
}

function stepColumn(shown, written, number) {
  const title = s("text", { y: 26, "font-size": 15 }, shortened(visible(written.text), 13));
  const count = s("text", { x: WIDE - 22, y: 26, "font-size": 10, fill: INK.soft, "text-anchor": "end" }, `${number}`);
  const lines = shown.flatMap(([, candidate], n) =>
    candidateLine(candidate, candidate.id === written.id, HEADROOM + TALL * n));
  return [title, count, ...lines];
}

function candidateLine(candidate, written, y) {
  const share = Math.exp(candidate.log_probability);
  const bar = { y, width: ((WIDE - 22) * share).toFixed(2), height: TALL - 4, fill: INK.heat, opacity: 0.28 };
  const name = `${written ? "● " : ""}${shortened(visible(candidate.text), 8)}`;
  return [
    s("rect", { y, width: WIDE - 22, height: TALL - 4, fill: INK.line, opacity: 0.4 }),
    s("rect", bar, s("title", {}, `${visible(candidate.text)}: ${exact(share)}`)),
    s("text", { x: 4, y: y + 11.5, "font-size": 11 }, name),
    s("text", { x: WIDE - 26, y: y + 11.5, "font-size": 10, "text-anchor": "end", fill: INK.soft }, exact(share)),
  ];
}
