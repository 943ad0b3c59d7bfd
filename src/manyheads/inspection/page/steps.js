// View 5, decoding steps: the candidates for each piece with their probabilities. On a live page, another candidate can
// be chosen: the rest is then decoded again from there.

import { candidateList, facts, marginOf, stepTable } from "./candidates.js";
import { css } from "./colour.js";
import { button } from "./controls.js";
import { compared } from "./diff.js";
import { active, h, replace, rove } from "./dom.js";
import { direction, spelt, visible } from "./letters.js";
import { firstWritten, isLone, kindsIn, wasGiven } from "./models.js";
import { clamp, exact, percent } from "./numbers.js";
import { makePlayer } from "./player.js";
import { stepsPicture } from "./stepspicture.js";
import { headName, readUnits, sidesOf } from "./weights.js";
import { merged, renormalised } from "./words.js";

const END_PIECE = 2; // the id of ⟨end⟩ in every vocabulary
const GOES_ON = "Choose another candidate to decode the rest again from there.";
const FED = "For pieces that were given, the step shows how well the model would have predicted them.";
const STANDS = "The page of ‘manyheads serve’ can continue from any candidate.";

export function stepsView(shared) {
  const source = h("div", { class: "reading", role: "group", "aria-label": isLone(shared.header) ? "Text read" : "Source" });
  const from = h("p", { class: "aside" });
  const row = h("div", { class: "steps", role: "group", "aria-label": "Steps" });
  const play = button("Play", () => player.toggle());
  const count = h("span", { class: "aside" });
  const told = h("dl", { class: "facts" });
  const candidates = h("ol", { class: "bars candidates" });
  const note = h("p", { class: "note" });
  const before = h("div", { class: "compared", hidden: true });
  const transport = h("div", { class: "controls" },
    button("←", () => move(-1), "Previous step"), play, button("→", () => move(1), "Next step"), count);
  const element = h("div", { class: "decoding" }, source, from, transport, row, before, told, candidates, note);
  let run = 0;

  const { steps, target, reading } = shared.header;
  const kind = kindsIn(shared.header).pop(); // the cross-attention or, without a source, the decoder's own
  const read = shared.header[sidesOf(shared.header, kind).keys];
  const look = reading || { layer: shared.header.model.layers[kind] - 1, head: null, shift: 0 };
  // The piece being written.
  const now = () => clamp(shared.state.target || firstWritten(shared.header), 1, steps.length);
  const pieceAt = (n) => target.pieces[n].text;
  const go = (n) => shared.choose({ target: clamp(n, 1, steps.length) });
  const player = makePlayer({
    now, go, last: () => steps.length, shown: () => element.isConnected,
    turned: (playing) => (play.textContent = playing ? "Pause" : "Play"),
  });

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    showSteps();
    showChange();
    showCandidates();
    if (!source.childElementCount) showSource(null);
    tell();
    const plane = await shared.planes(`${kind}/${look.layer}`);
    if (mine === run) showSource(plane && plane.block === 1 ? plane : null);
  }

  function showSteps() {
    const used = row.contains(active(element));
    const chosen = now();
    row.dir = direction(target.text);
    const buttons = steps.map((step, n) => {
      const when = n + 1 === chosen ? "now" : n + 1 < chosen ? "past" : "coming";
      const sure = Math.exp(step.log_probability);
      const given = wasGiven(shared.header, n + 1) ? " given" : "";
      const mark = h("span", { class: step.rank ? "share surprise" : "share" }, percent(sure));
      const label = h("bdi", { class: "label" }, spelt(pieceAt(n + 1), true));
      return h("button", {
        type: "button", class: `word ${when}${given}`, "aria-pressed": String(when === "now"), title: exact(sure),
        click: () => go(n + 1),
      }, label, mark);
    });
    replace(row, buttons);
    rove(buttons, chosen - 1);
    if (used) buttons[chosen - 1].focus();
    count.textContent = `step ${chosen} of ${steps.length}`;
  }

  function showSource(plane) {
    const { state, colours } = shared;
    const units = readUnits(kind, read, state.words).filter((unit) => !(state.hide && unit.special));
    const rowNumber = now() - 1 + look.shift;
    const seen = plane && rowNumber < plane.shape[1];
    const weights = seen ? merged(plane, look.head, [{ rows: [rowNumber] }], units) : null;
    if (weights && state.hide) renormalised(weights, units.length);
    source.dir = direction(read.text);
    replace(source, units.map((unit, n) => sourceWord(unit, weights ? weights[n] : null, colours, !state.words)));
    from.textContent = weights ? `Attention of this step: ${headName(look.layer, look.head)}` : "";
  }

  function showCandidates() {
    const n = now();
    const { asking } = shared;
    replace(told, facts(shared.header, n));
    const choose = asking ? (candidate) => goOn(n, candidate) : null;
    replace(candidates, candidateList(shared.header, n, choose));
    const refusal = asking && asking.refusal && asking.refusal.place === "steps" ? asking.refusal.sentence : null;
    note.classList.toggle("warning", Boolean(refusal));
    note.textContent = refusal || (asking ? GOES_ON : isLone(shared.header) ? FED : STANDS);
  }

  function tell() {
    const step = steps[now() - 1];
    const what = `step ${now()} of ${steps.length} writes ‘${visible(pieceAt(now()))}’`;
    const fared = `${exact(Math.exp(step.log_probability))}, rank ${step.rank + 1}`;
    shared.say(`${what}: ${fared}; entropy ${exact(step.entropy)} nats, margin ${exact(marginOf(step))}`);
  }

  // ── another candidate ─────────────────────────────────────────────────────────────────────────────────────────────

  // The text before a piece: positions count characters.
  function goOn(n, candidate) {
    const text = [...target.text].slice(0, target.pieces[n - 1].end).join("");
    const ending = { target: text, prefix: "", ids: null };
    const going = { target: null, prefix: text + candidate.adds, ids: null };
    player.stop();
    shared.asking.branch(candidate.id === END_PIECE ? ending : going, "steps");
  }

  function showChange() {
    const trail = shared.asking ? shared.asking.trail : [];
    const former = trail.length && !shared.asking.busy ? trail[trail.length - 1].header : null;
    before.hidden = !former;
    if (!former) return;
    replace(before,
      compared(former.target, target, ["before", "now"]),
      button("Back to the previous translation", () => shared.asking.back("steps")));
  }

  // ── moving ────────────────────────────────────────────────────────────────────────────────────────────────────────

  function move(by) {
    player.stop();
    go(now() + by);
  }

  element.addEventListener("keydown", (event) => {
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (along) move(row.dir === "rtl" ? -along : along);
    else if (event.key === " " && !candidates.contains(event.target) && !transport.contains(event.target)) player.toggle();
    else if (!roveCandidates(event)) return;
    event.preventDefault();
  });

  function roveCandidates(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const all = [...candidates.querySelectorAll("button")];
    if (!by || !all.length) return false;
    const at = all.indexOf(active(element));
    all[at < 0 ? 0 : clamp(at + by, 0, all.length - 1)].focus();
    return true;
  }

  return {
    element,
    update,
    resize: () => {},
    repaint: update,
    table: () => stepTable(shared.header),
    picture: () => stepsPicture(shared.header),
  };
}

function sourceWord(unit, weight, colours, blanks) {
  const label = h("bdi", { class: "label" }, spelt(unit.text, blanks));
  const seen = weight !== null && weight >= 0.005;
  if (seen) {
    label.style.setProperty("--tint", css(colours.weight(weight)));
    label.style.setProperty("--on", colours.onWeight(weight));
  }
  return h("span", { class: unit.special ? "word special" : "word", title: weight === null ? null : exact(weight) },
    label, h("span", { class: "share" }, seen ? percent(weight) : ""));
}
