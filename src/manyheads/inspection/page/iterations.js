// View 17, iterations: how a model that writes all tokens at once arrived at its output. Columns are places, rows are
// iterations: masked places are written again, the rest are kept. For a model that reads a graph, this view shows the
// graph (graph.js).

import { css } from "./colour.js";
import { button, choice } from "./controls.js";
import { active, h, intoSight, replace, replaceControls, rove } from "./dom.js";
import { fact } from "./facts.js";
import { graphView } from "./graph.js";
import { attemptNow, cellTold, fateOf, isGone, iterationTable, leastSure, MASK_SIGN, nowMasked, placeNow, restless, scoreText } from "./iterationfacts.js";
import { iterationsPicture } from "./iterationspicture.js";
import { direction, spelt, visible } from "./letters.js";
import { clamp, exact, hundredths, percent } from "./numbers.js";
import { makePlayer } from "./player.js";
import { cutOf } from "./rows.js";
import { makeTip } from "./tip.js";

const NAMES_ROOM = 120; // pixels of the sticky row headers
const SHOW_HEADS = "All other views then show what heads did in this iteration";
const HOW_TO_READ =
  "Colour shows how likely a word was when it was written. Outlined words were masked before and written in this iteration, "
  + "in red if they changed. Pale words were kept.";

export function iterationsView(shared) {
  return shared.header.graph ? graphView(shared) : fillingView(shared);
}

function fillingView(shared) {
  const { header, asking } = shared;
  const lengths = h("div", { class: "controls" });
  const play = button("Play", () => player.toggle());
  const count = h("span", { class: "aside" });
  const heads = asking ? button("Show its heads", showHeads, SHOW_HEADS) : null;
  const refused = h("p", { class: "note warning" });
  const transport = h("div", { class: "controls" },
    button("←", () => move(-1), "Previous iteration"), play, button("→", () => move(1), "Next iteration"), count, heads);
  const read = h("p", { class: "filling before", "aria-label": "Input of this iteration" });
  const line = h("p", { class: "filling", "aria-label": "Text after this iteration" });
  const grid = h("div", { class: "filled", role: "grid", "aria-label": "Iterations and places" });
  const scroll = h("div", { class: "tree" }, grid);
  const told = h("dl", { class: "facts" });
  const lead = h("p", { class: "lead" });
  const history = h("ol", { class: "bars by-pass" });
  const element = h("div", { class: "iterations" }, lengths, transport, refused, h("div", {}, read, line), scroll,
    h("p", { class: "note" }, HOW_TO_READ), told, h("section", {}, lead, history));
  const tip = makeTip(element);

  const attempt = () => attemptNow(shared);
  const last = () => attempt().iterations.length;
  const now = () => clamp((shared.state.pass ?? last() - 1) + 1, 1, last()); // counted from 1
  const place = () => placeNow(shared);
  const go = (n) => shared.choose({ pass: clamp(n, 1, last()) - 1 });
  const canShow = () => attempt().taken && now() !== header.iteration;
  const choosePlace = (n) => (attempt().taken ? { target: n } : { place: n });
  const player = makePlayer({
    now, go, last, shown: () => element.isConnected,
    turned: (playing) => (play.textContent = playing ? "Pause" : "Play"),
  });

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  function update() {
    showLengths();
    showLine();
    showGrid();
    showTold();
    showHistory();
    if (asking) showAsking();
    tell();
  }

  function showAsking() {
    const { refusal } = asking;
    heads.ariaDisabled = String(!canShow());
    refused.textContent = refusal && refusal.place === "iterations" ? refusal.sentence : "";
  }

  function showLengths() {
    const order = [...header.tries.keys()].sort((a, b) => header.tries[a].length - header.tries[b].length);
    const options = order.map((n) => {
      const one = header.tries[n];
      const chance = one.length_log_probability === null ? "" : `; probability of this length ${exact(Math.exp(one.length_log_probability))}`;
      const title = `${visible(one.text)}${chance}; score ${scoreText(one.score)}${one.taken ? "; taken" : ""}`;
      return [n, `${one.taken ? "● " : ""}${one.length} places, ${scoreText(one.score)}`, title];
    });
    const choose = (n) => shared.choose({ attempt: header.tries[n].taken ? null : n, pass: null, place: null });
    const what = h("span", { class: "aside" }, "with their scores; ● was taken");
    replaceControls(lengths, ...(options.length > 1 ? [choice("Lengths tried", options, header.tries.indexOf(attempt()), choose), what] : []));
    lengths.hidden = options.length < 2;
  }

  // The input of this iteration, with its masks, and the text after it.
  function showLine() {
    const one = attempt().iterations[now() - 1];
    read.dir = line.dir = direction(attempt().text);
    const apart = (text, n, shown) => [text.startsWith(" ") && n > 0 ? " " : null, shown];
    const kindOf = (n) => `${one.written[n] ? "new" : "kept"}${one.changed[n] ? " other" : ""}${isGone(one, n) ? " gone" : ""}`;
    replace(read, one.pieces.flatMap((text, n) => apart(one.written[n] ? " " : text, n, one.written[n]
      ? h("span", { class: "hole" }, MASK_SIGN) : h("bdi", { class: "kept" }, spelt(text)))));
    replace(line, one.pieces.flatMap((text, n) => apart(text, n, h("bdi", { class: kindOf(n) }, spelt(text)))));
    count.textContent = `iteration ${now()} of ${last()}`;
  }

  function showGrid() {
    const used = grid.contains(active(element));
    const { iterations, length } = attempt();
    grid.style.setProperty("--places", length);
    grid.dir = direction(attempt().text);
    const chosen = { pass: now() - 1, place: place() ?? restless(attempt()) };
    const numbers = [...Array(length).keys()].map((n) =>
      h("span", { class: n === place() ? "heading chosen" : "heading", role: "columnheader" }, `${n + 1}`));
    const rows = iterations.map((one, pass) => h("div", { class: pass === chosen.pass ? "row now" : "row", role: "row" },
      h("button", {
        type: "button", class: "corner", role: "rowheader", tabindex: -1, click: () => shared.choose({ pass }),
        title: `${one.written.filter(Boolean).length} of ${length} places were masked`,
      }, `${pass + 1}`, h("small", {}, percent(Math.exp(Math.min(...one.log_probability))))),
      one.pieces.map((_, n) => cellOf(one, pass, n, chosen))));
    replace(grid, h("div", { class: "row", role: "row" }, h("span", { class: "corner" }, h("small", {}, "place"), h("small", {}, "least sure")), numbers), rows);
    const cells = [...grid.querySelectorAll("[role=gridcell]")];
    const at = chosen.pass * length + chosen.place;
    rove(cells, at);
    if (used) cells[at].focus();
    if (place() !== null) intoSight(scroll, cells[at], NAMES_ROOM);
  }

  function cellOf(one, pass, n, chosen) {
    const sure = Math.exp(one.log_probability[n]);
    const kinds = [one.written[n] ? "new" : "kept", one.changed[n] ? "other" : "", isGone(one, n) ? "gone" : ""];
    const made = h("button", {
      type: "button", role: "gridcell", class: `filled-cell ${kinds.filter(Boolean).join(" ")}`,
      "aria-label": cellTold(attempt(), pass, n), "aria-pressed": String(pass === chosen.pass && n === place()),
      click: () => shared.choose({ pass, ...choosePlace(n) }), pointerleave: tip.hide,
      pointermove: (event) => tip.show(event, h("b", {}, exact(sure)), h("bdi", {}, `‘${visible(one.pieces[n])}’`),
        h("small", {}, fateOf(attempt(), pass, n))),
    }, h("bdi", { class: "label" }, spelt(one.pieces[n], true)), h("span", { class: "rank" }, percent(sure)));
    const share = one.written[n] ? sure : 0.12 * sure;
    made.style.setProperty("--tint", css(shared.colours.weight(0.9 * share)));
    made.style.setProperty("--on", shared.colours.onWeight(0.9 * share));
    return made;
  }

  function showTold() {
    const one = attempt();
    const chance = one.length_log_probability;
    replace(told,
      fact("places", `${one.length}`, chance === null ? "" : `probability of this length ${exact(Math.exp(chance))}`),
      fact("log-probability", hundredths(one.log_probability)),
      fact("score", scoreText(one.score), one.taken && header.tries.length > 1 ? "the best: taken" : ""),
      cutOf(one) === null ? null : fact("cut", `at place ${cutOf(one) + 1}`, "the first end"),
      fact("least sure now", leastSure(one.iterations[now() - 1])));
  }

  // One place across all iterations.
  function showHistory() {
    const n = place() ?? restless(attempt());
    replace(lead, `Place ${n + 1} across iterations`, h("small", {}, "Each word with its probability when it was written; ▢: was masked"));
    replace(history, attempt().iterations.map((one, pass) => {
      const sure = Math.exp(one.log_probability[n]);
      const bar = h("span", { class: "bar" });
      bar.style.setProperty("--share", sure);
      return h("li", { class: `${pass === now() - 1 ? "chosen" : ""} ${one.written[n] ? "" : "kept"}` },
        h("span", { class: "rank" }, `${pass + 1}`), h("span", { class: "sign-of" }, one.written[n] ? MASK_SIGN : ""),
        h("bdi", { class: one.changed[n] ? "label other" : "label" }, spelt(one.pieces[n], true)), bar, h("span", { class: "number" }, exact(sure)));
    }));
  }

  function tell() {
    const [one, n] = [attempt().iterations[now() - 1], place()];
    if (n !== null) shared.say(cellTold(attempt(), now() - 1, n));
    else shared.say(`iteration ${now()} of ${last()}: ${nowMasked(one)}; least sure: ${leastSure(one)}`);
  }

  // The last iteration is requested as 0: with heads off, another length may be taken that needs fewer iterations.
  function showHeads() {
    if (canShow()) asking.ask({ iteration: now() === last() ? 0 : now() }, "iterations");
  }

  // ── moving ────────────────────────────────────────────────────────────────────────────────────────────────────────

  function move(by) {
    player.stop();
    go(now() + by);
  }

  element.addEventListener("keydown", (event) => {
    if (lengths.contains(event.target)) return;
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (down) move(down);
    else if (along && transport.contains(event.target)) move(along);
    else if (along) {
      const by = grid.dir === "rtl" ? -along : along;
      shared.choose(choosePlace(clamp(place() === null ? restless(attempt()) : place() + by, 0, attempt().length - 1)));
    } else if (event.key === " " && !transport.contains(event.target)) player.toggle();
    else return;
    event.preventDefault();
  });

  return {
    element,
    update,
    resize: () => {},
    repaint: update,
    table: () => iterationTable(header),
    picture: () => iterationsPicture(shared),
  };
}
