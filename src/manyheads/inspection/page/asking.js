// A conversation with a live host: what is asked, what was answered, and what later answers are held against.
//
//   question    what was asked last: {text, beam, part, target, prefix, off}
//   base        the last answer with all heads on: what it is without some is held against it
//   trail       the answers before other candidates were chosen, the way back
//   ranking     what each head does for the base, once that was asked
//   refusal     {place, sentence}: where a question was asked that was refused, and why

const PLAIN = { target: null, prefix: "", off: [] };

export function openAsking(model, changed) {
  const question = firstQuestion(model.get("header"));
  const asking = { question, base: null, trail: [], ranking: null, refusal: null, busy: false };
  let [answered, place, timer] = [question, "", 0];

  // `seen` is what the views must show; a new answer is drawn anew in any case.
  const set = (patch, seen = false) => {
    Object.assign(asking, patch);
    changed(seen);
  };
  const send = () => {
    const { base, question } = asking;
    const against = question.off.length && base ? base.number : null;
    model.send({ type: "inspect", ...question, against });
  };

  // `where` is the part of the page that asks, and is told. `wait` lets what is about to be overtaken not be asked at all.
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
    asking.ask({ target: question.target, prefix: question.prefix }, where);
  };
  asking.rank = (where) => {
    place = where;
    set({ refusal: null, busy: true });
    model.send({ type: "importance", number: asking.base.number });
  };

  const answer = () => {
    const header = model.get("header");
    answered = asking.question;
    if (header.off.length === 0) Object.assign(asking, { base: header, ranking: null });
    set({ busy: false });
  };
  const hear = (message) => {
    const ofBase = asking.base && message.number === asking.base.number;
    if (message.type === "importance" && ofBase) set({ ranking: message.heads, busy: false }, true);
    if (message.type !== "refused") return;
    asking.question = answered;
    set({ refusal: { place, sentence: sentenceOf(message) }, busy: false }, true);
  };
  if (model.get("header")) answer();
  model.on("change:header", answer);
  model.on("msg:custom", hear);
  asking.close = () => {
    clearTimeout(timer);
    model.off("change:header", answer);
    model.off("msg:custom", hear);
  };
  return asking;
}

function firstQuestion(header) {
  return { text: header ? header.text || header.source.text : "", beam: 0, part: header ? header.part : 1, ...PLAIN };
}

function sentenceOf({ error, hint }) {
  const text = hint ? `${error} (${hint})` : error;
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!)]$/.test(text) ? "" : ".");
}
