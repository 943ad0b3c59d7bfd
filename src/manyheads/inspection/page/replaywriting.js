// What a model would have written, piece by piece, at a training step: the probability of the reference, and of the
// likeliest piece where that differs.

import { css } from "./colour.js";
import { active, h, replace, rove } from "./dom.js";
import { direction, spelt, visible } from "./letters.js";
import { exact, percent } from "./numbers.js";

export function showWriting(element, shared, moment) {
  const { header, state, colours, choose } = shared;
  const { replay, target } = header;
  const used = [...element.children].indexOf(active(element));
  const pieces = target.pieces.slice(1).map((piece, n) => {
    const [sure, best] = [Math.exp(replay.log_probability[moment][n]), replay.best[moment][n]];
    return wordOf(piece, sure, best, { chosen: state.target === n + 1, colours, act: () => choose({ target: n + 1 }) });
  });
  element.dir = direction(target.text);
  replace(element, pieces);
  rove(pieces, used >= 0 ? used : Math.max(0, (state.target || 1) - 1));
  if (used >= 0) pieces[used].focus();
}

function wordOf(piece, sure, best, { chosen, colours, act }) {
  const right = best.id === piece.id;
  const likelier = Math.exp(best.log_probability);
  const said = `‘${visible(piece.text)}’ ${exact(sure)}`;
  const label = right ? `${said}, the likeliest` : `${said}; likeliest ‘${visible(best.text)}’ ${exact(likelier)}`;
  const text = h("bdi", { class: "label" }, spelt(piece.text, true));
  text.style.setProperty("--tint", css(colours.weight(sure)));
  text.style.setProperty("--on", colours.onWeight(sure));
  const other = right ? h("span", { class: "would right" }, "✓") : h("span", { class: "would" },
    h("bdi", {}, spelt(best.text)), ` ${percent(likelier)}`);
  return h("button", {
    type: "button", class: "word", title: label, "aria-label": label, "aria-pressed": String(chosen), click: act,
  }, text, h("span", { class: "share" }, percent(sure)), other);
}
