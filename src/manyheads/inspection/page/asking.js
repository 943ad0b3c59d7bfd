// A conversation with a live host: the last question, its answer, and the answers that later ones are compared with.
//
//   question    the last question: {text, part, target, prefix, ids, off, instead, iteration}, and the settings of
//               telling.js
//   base        the last answer with all heads on; answers with some heads off are compared with it
//   trail       the answers before other candidates were chosen, to go back to
//   ranking     what each head does for the base, if that was requested
//   attributions  {number, found: {method: numbers}, asked}: the attributions of answer `number`, and the last method
//               requested
//   refusal     {place, sentence}: the part of the page whose question was refused, and why

import { UNTOLD } from "./telling.js";

const PLAIN = { target: null, prefix: "", ids: null, off: [], iteration: 0 };

const NO_ATTRIBUTIONS = { number: null, found: {}, asked: null };

export function openAsking(model, changed) {
  const question = firstQuestion(model.get("header"));
  const whole = (header) => header && header.off.length === 0;
  const base = whole(model.get("header")) ? model.get("header") : null;
  const asking = { question, base, trail: [], ranking: null, refusal: null, busy: false };
  asking.attributions = NO_ATTRIBUTIONS;
  let [answered, place, timer] = [{ question, trail: [] }, "", 0]; // `answered` is restored when a question is refused

  // `seen`: the views must redraw. A new answer is redrawn in any case.
  const set = (patch, seen = false) => {
    Object.assign(asking, patch);
    changed(seen);
  };
  const send = () => {
    const against = asking.question.off.length && asking.base ? asking.base.number : null;
    model.send({ type: "inspect", ...asking.question, against });
  };

  // `where` is the part of the page that asks and shows a refusal. A newer question within `wait` replaces this one.
  asking.ask = (patch, where, wait = 0) => {
    place = where;
    clearTimeout(timer);
    set({ question: { ...asking.question, ...patch }, refusal: null, busy: true });
    timer = setTimeout(send, wait);
  };
  asking.prefer = (patch) => set({ question: { ...asking.question, ...patch } });
  asking.askText = (patch, where) => {
    asking.trail = [];
    asking.ask({ ...PLAIN, ...patch }, where);
  };
  asking.branch = (patch, where) => {
    asking.trail = [...asking.trail, { question: asking.question, header: model.get("header") }];
    asking.ask(patch, where);
  };
  asking.back = (where) => {
    const { question } = asking.trail[asking.trail.length - 1];
    asking.trail = asking.trail.slice(0, -1);
    asking.ask({ target: question.target, prefix: question.prefix, ids: question.ids }, where);
  };
  // Sets what switched-off heads output. With all heads on, no new answer is needed.
  asking.give = (instead, where) => {
    asking.ranking = null;
    if (asking.question.off.length) asking.ask({ instead }, where);
    else asking.prefer({ instead });
  };
  asking.rank = (where) => {
    place = where;
    set({ refusal: null, busy: true });
    model.send({ type: "importance", number: asking.base.number, instead: asking.question.instead });
  };

  asking.attribute = (method, where) => {
    place = where;
    const { number } = model.get("header");
    const known = asking.attributions.number === number ? asking.attributions : NO_ATTRIBUTIONS;
    set({ refusal: null, busy: true, attributions: { ...known, number, asked: method } });
    model.send({ type: "attribution", number, method });
  };

  const answer = () => {
    const header = model.get("header");
    answered = { question: asking.question, trail: asking.trail };
    if (whole(header)) Object.assign(asking, { base: header, ranking: null });
    set({ busy: false });
  };
  const hear = (message) => {
    const ofBase = asking.base && message.number === asking.base.number;
    const asGiven = message.instead === asking.question.instead; // false if the user has changed it since
    if (message.type === "importance" && ofBase) set({ ranking: asGiven ? message.heads : null, busy: false }, true);
    if (message.type === "attribution" && message.number === asking.attributions.number) {
      const found = { ...asking.attributions.found, [message.found.method]: message.found };
      set({ attributions: { ...asking.attributions, found }, busy: false }, true);
    }
    if (message.type !== "refused" || (message.plane && message.number !== model.get("header").number)) return;
    set({ ...answered, refusal: { place, sentence: sentenceOf(message) }, busy: false }, true);
  };
  model.on("change:header", answer);
  model.on("msg:custom", hear);
  asking.close = () => {
    clearTimeout(timer);
    model.off("change:header", answer);
    model.off("msg:custom", hear);
  };
  return asking;
}

// A host may start with an answer.
function firstQuestion(header) {
  if (!header) return { text: "", part: 1, instead: "zero", ...UNTOLD, ...PLAIN };
  const off = header.off.map(([kind, layer, head]) => ({ kind, layer, head }));
  return { text: header.text || header.source.text, part: header.part, ...UNTOLD, ...PLAIN, off, instead: header.means ? "mean" : "zero" };
}

function sentenceOf({ error, hint }) {
  const text = hint ? `${error} (${hint})` : error;
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!)]$/.test(text) ? "" : ".");
}
