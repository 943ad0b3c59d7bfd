// The frame around the views: the texts, the tabs, settings and notes for all views, and the save buttons.

import { button, check, choice } from "./controls.js";
import { h, replace, replaceControls, rove } from "./dom.js";
import { keyHelp } from "./keys.js";
import { spelt, visible } from "./letters.js";
import { isLone, nameOfOutput, viewsOf, writes } from "./models.js";
import { countOfWritten, isAtOnce, takenTry } from "./rows.js";
import { asCsv, asPng, asSvg, copy, download } from "./saving.js";

const LONG = 240; // characters in both texts, above which they are set in small type
const HIDDEN = "Begin and end are hidden; the remaining weights of each row are rescaled to add up to 1.";
const SINGLE = "Vectors belong to single pieces: this view shows all pieces and does not merge them into words.";
const TITLES = {
  iterations: "Iterations", graph: "Graph",
  align: "Translate and align", lines: "Lines", matrix: "Matrix", map: "Model map", steps: "Decoding steps",
  beam: "Beam tree", lens: "Layer lens", switches: "Head switchboard", attribution: "Attribution",
  inside: "Query and key", flow: "Flow", compare: "Compare", replay: "Replay", heads: "Heads",
  pieces: "Text to pieces", tables: "Text form",
};
const WHOLE = ["iterations", "switches", "lens", "pieces", "attribution", "heads"]; // views without the note HIDDEN
const MOST_NAMED = 3; // switched-off heads, above which they are only counted

export function titleOf(header) {
  const { model } = header;
  const facts = [
    ["model", visible(model.name || "unnamed")],
    ...(writes(header) ? likelihoodOf(header) : [["pieces", `${header.source.pieces.length}`]]),
    header.parts > 1 ? ["part", `${header.part} of ${header.parts}`] : null,
    header.forced ? [nameOfOutput(header), "given"] : null,
    header.off && header.off.length ? ["without", withoutHeads(header.off) + (header.means ? " (replaced by their means)" : "")] : null,
  ];
  const long = [header.source, header.target].reduce((sum, side) => sum + (side ? side.text.length : 0), 0) > LONG;
  const fact = ([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h("header", {},
    h("p", { class: long ? "texts long" : "texts" }, isLone(header) ? loneText(header) : bothTexts(header)),
    h("dl", { class: "facts" }, facts.filter(Boolean).map(fact)));
}

function likelihoodOf(header) {
  const { log_probability: logProbability } = header;
  return [
    ["log-probability", logProbability.toFixed(2).replace("-", "−")],
    ["perplexity per piece", Math.exp(-logProbability / countOfWritten(header)).toFixed(2)],
    ...(isAtOnce(header) ? [writtenHow(header)] : []),
  ];
}

function writtenHow(header) {
  if (header.graph) return ["written", `all at once, a path through ${header.graph.path.length} of ${header.graph.vertices.length} vertices`];
  const { length, iterations } = takenTry(header);
  return ["written", `all at once, ${length} places in ${iterations.length === 1 ? "1 iteration" : `${iterations.length} iterations`}`];
}

function bothTexts(header) {
  const text = (of) => h("bdi", { dir: "auto" }, spelt(of));
  const inBox = header.live && header.parts === 1; // then the text box already shows the source
  return [inBox ? null : [text(header.source.text), h("span", { class: "arrow" }, " → ")], text(header.translation)].flat();
}

// The text of a language model, with the part that it wrote marked.
function loneText({ source, target, continuation }) {
  if (source) return h("bdi", { dir: "auto" }, spelt(source.text));
  const prompt = target.text.slice(0, target.text.length - continuation.length);
  const written = continuation ? h("span", { class: "continuation" }, spelt(continuation)) : null;
  return h("bdi", { dir: "auto" }, prompt ? spelt(prompt) : null, /^ /.test(continuation) ? " " : null, written);
}

function withoutHeads(off) {
  if (off.length > MOST_NAMED) return `${off.length} heads`;
  return off.map(([kind, layer, head]) => `${kind} ${layer}.${head}`).join(", ");
}

// The iterations view of a model that reads a graph is called ‘Graph’.
function titleOfView(header, view) {
  return TITLES[view === "iterations" && header.graph ? "graph" : view];
}

export function tabsOf(shared) {
  const views = viewsOf(shared.header);
  const tabs = views.map((view) =>
    h("button", { type: "button", role: "tab", "data-view": view, click: () => shared.choose({ view }) }, titleOfView(shared.header, view)));
  const there = { compare: shared.other.possible, replay: shared.header.replay, heads: shared.header.report };
  views.forEach((view, n) => (tabs[n].hidden = view in there && !there[view] && shared.state.view !== view));
  const step = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const seen = [...views.keys()].filter((n) => !tabs[n].hidden);
    const next = seen[(seen.indexOf(views.indexOf(shared.state.view)) + by + seen.length) % seen.length];
    shared.choose({ view: views[next] });
    tabs[next].focus();
  };
  return h("div", { role: "tablist", "aria-label": "Views", keydown: step }, tabs);
}

export function markTab(tablist, view) {
  const tabs = [...tablist.children];
  const chosen = tabs.findIndex((tab) => tab.dataset.view === view);
  if (tabs[chosen].ariaSelected === "true") return;
  tabs.forEach((tab, n) => (tab.ariaSelected = String(n === chosen)));
  rove(tabs, chosen);
  bringIntoSight(tablist, tabs[chosen]);
}

// On narrow screens the tabs are one line that scrolls. (scrollIntoView would also move the page.)
function bringIntoSight(tablist, tab) {
  const [all, one] = [tablist, tab].map((element) => element.getBoundingClientRect());
  tablist.scrollLeft += (one.left + one.right - all.left - all.right) / 2;
}

export function showSettings(element, shared) {
  const { state, choose } = shared;
  replaceControls(element,
    choice("Show", [[true, "words"], [false, "pieces"]], state.words, (words) => choose({ words })),
    check("Hide begin and end", state.hide, (hide) => choose({ hide })));
}

// Notes that readers need to interpret the numbers of the current view.
export function showNotes(element, { header, state }) {
  const inside = state.view === "inside" || state.view === "flow";
  const notes = [
    isAtOnce(header) && !header.graph && !["iterations", "pieces"].includes(state.view) ? passNote(header) : null,
    state.hide && !inside && !WHOLE.includes(state.view) ? HIDDEN : null,
    (state.words || state.hide) && inside ? SINGLE : null,
    ...header.left_out.map((what) => `Left out: ${what}.`),
  ];
  replace(element, notes.filter(Boolean).map((text) => h("p", { class: "note" }, text)));
}

function passNote(header) {
  const { iterations } = takenTry(header);
  const last = header.iteration === iterations.length ? ", the last" : ` of ${iterations.length}`;
  return `Heads and vectors are those of iteration ${header.iteration}${last}; a masked place is read as ▢ with its number.`;
}

export function actionsOf(shared, current) {
  const name = () => `manyheads-${shared.state.view}`;
  const said = h("span", { class: "said", role: "status" });
  const copyTable = async () => {
    said.textContent = (await copy(asCsv(current().table()), shared.el)) ? "Copied" : "Could not copy";
  };
  const saveSvg = () => download(new Blob([asSvg(current().picture())], { type: "image/svg+xml" }), `${name()}.svg`);
  const savePng = async () => download(await asPng(current().picture()), `${name()}.png`);
  const help = keyHelp();
  const toggle = () => (help.hidden = !help.hidden);
  const element = h("footer", {},
    h("div", { class: "actions" },
      button("Copy CSV", copyTable),
      button("Save SVG", saveSvg),
      button("Save PNG", savePng),
      said,
      button("Keys", toggle, "Keyboard shortcuts (?)")),
    help);
  return { element, toggle };
}
