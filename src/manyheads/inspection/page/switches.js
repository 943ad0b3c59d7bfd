// View 8, head switchboard: the model without some of its heads, and what that does to the output.

import { button, choice } from "./controls.js";
import { compared } from "./diff.js";
import { active, focusNamed, h, nameOf, replace } from "./dom.js";
import { fact } from "./facts.js";
import { isLone, kindsIn, nameOfOutput } from "./models.js";
import { signed } from "./numbers.js";
import { isAtOnce, writtenText } from "./rows.js";
import { rankLegend, rankLists, ranksOf } from "./ranking.js";
import { sameHead, switchBlock } from "./switchblock.js";
import { switchesPicture } from "./switchespicture.js";

const WAIT = 150; // milliseconds: several switches turned within this time make one question
const HOW_TO_SWITCH = "Click a head to switch it off, a number for a complete layer, or a name for all heads of that kind.";
const GIVES = [
  ["zero", "nothing", "Its output is 0"],
  ["mean", "its mean", "The same for every word: its mean output over this sentence, with all heads on"],
];
const STILL = "On the page of ‘manyheads serve’, heads can be switched off.";
const UNRANKED = "The heads were not ranked when this page was made, because that would have taken long.";

export function switchesView(shared) {
  const { header, asking } = shared;
  const boards = h("div", { class: "boards" });
  const outcome = h("div", { class: "outcome" });
  const ranks = h("div", { class: "ranking" });
  const note = h("p", { class: "note" });
  const rank = button("Rank heads", () => canRank() && asking.rank("switches"), "Measure what each head does for this translation");
  const allOn = button("All on", () => off().length && turn(() => []));
  const instead = asking ? choice("A head that is off outputs", GIVES, asking.question.instead, (one) => {
    asking.give(one, "switches");
    update();
  }) : null;
  const asks = asking ? [h("div", { class: "controls" }, allOn, rank, instead), outcome] : [];
  const element = h("div", { class: "switches" }, asks, boards, ranks, note);
  let blocks = [];

  const off = () => (asking ? asking.question.off : header.off.map(([kind, layer, head]) => ({ kind, layer, head })));
  const canRank = () => asking.base && !asking.ranking;
  const ranking = () => ranksOf(asking ? asking.ranking : header.importance);

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const used = element.contains(active(element)) && nameOf(active(element));
    const found = ranking();
    const look = { off: off(), ranking: found, colours: shared.colours, live: Boolean(asking), header };
    blocks = kindsIn(header).map((kind) => switchBlock(kind, look, { toggle, say: shared.say }));
    replace(boards, blocks);
    showRanks(found);
    showOutcome();
    showNote(found);
    if (used && !element.contains(active(element))) focusNamed(element, used);
  }

  function showRanks(found) {
    const what = asking ? whatOfBase() : isAtOnce(header) ? decidedBy(header) : `this ${nameOfOutput(header)}`;
    replace(ranks, found ? [rankLegend(shared.colours, what), rankLists(found, asking ? toggle : null)] : []);
  }

  function whatOfBase() {
    const { base } = asking;
    const what = base && base.tries ? `what iteration ${base.iteration} wrote` : base && base.graph ? "the path" : "the translation";
    return `${what} (all heads on)`;
  }

  function showOutcome() {
    if (!asking) return;
    const { base } = asking;
    allOn.ariaDisabled = String(off().length === 0);
    rank.ariaDisabled = String(!canRank());
    if (!base || !header.off.length || !header.against) {
      replace(outcome, h("p", { class: "lead" }, sayOff(header.off), h("small", {}, HOW_TO_SWITCH)));
      return;
    }
    const { change } = header.against;
    const part = base.tries ? `: what its iteration ${base.iteration} wrote` : "";
    replace(outcome,
      h("p", { class: "lead" }, sayOff(header.off)),
      h("div", { class: "compared" }, compared(writtenText(base), writtenText(header), ["all heads", "without"])),
      h("dl", { class: "facts" },
        fact("Δ log-probability of the first", signed(change), `${likelier(change)}${part}`),
        fact("log-probability of the second", signed(header.log_probability))));
    shared.say(`${sayOff(header.off)}: the first translation changes by ${signed(change)} in log-probability`);
  }

  function showNote(found) {
    const refusal = asking && asking.refusal && asking.refusal.place === "switches" ? asking.refusal.sentence : null;
    note.classList.toggle("warning", Boolean(refusal));
    note.textContent = refusal || (asking ? "" : [found ? "" : UNRANKED, isLone(header) ? "" : STILL].filter(Boolean).join(" "));
  }

  // ── switching ─────────────────────────────────────────────────────────────────────────────────────────────────────

  // A group with any head on is switched off; otherwise all of it is switched on.
  function toggle(heads) {
    turn((now) => {
      const others = now.filter((one) => !heads.some((head) => sameHead(one, head)));
      const lit = heads.some((head) => !now.some((one) => sameHead(one, head)));
      return lit ? [...others, ...heads] : others;
    });
  }

  function turn(change) {
    asking.ask({ off: change(off()) }, "switches", WAIT);
    update();
  }

  return {
    element,
    update,
    resize: () => {},
    repaint: update,
    table: () => switchTable(header, off(), ranking()),
    picture: () => switchesPicture(asking && asking.base ? asking.base : header, off(), ranking()),
  };
}

// The output that the shown pass of a model that writes all at once decided.
function decidedBy({ graph, iteration }) {
  return graph ? "this path, its words and its links," : `what iteration ${iteration} wrote`;
}

function sayOff(off) {
  if (!off.length) return "All heads are on";
  return `Without ${off.length === 1 ? "1 head" : `${off.length} heads`}`;
}

function likelier(change) {
  const times = Math.exp(Math.abs(change));
  if (times < 1.005) return "as likely as before";
  const shown = times < 1e4 ? times.toPrecision(3) : "more than 10,000";
  return `${shown} times ${change < 0 ? "less" : "more"} likely`;
}

function switchTable(header, off, ranking) {
  const { model } = header;
  const rows = kindsIn(header).flatMap((kind) => [...Array(model.layers[kind] * model.heads).keys()].map((n) => {
    const one = { kind, layer: Math.floor(n / model.heads), head: n % model.heads };
    const isOff = Number(off.some((other) => sameHead(one, other)));
    return [kind, one.layer, one.head, isOff, ranking ? Number(ranking.change(one).toFixed(6)) : ""];
  }));
  return [["kind", "layer", "head", "off", "change"], ...rows];
}
