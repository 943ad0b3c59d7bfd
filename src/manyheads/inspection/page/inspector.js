// The inspector: render({ model, el }) draws it into an element and returns a function that removes it.
//
// The model has the interface of anywidget: get("header"), get("planes"), get("other"), on, off, send. All views share
// one selection; each view is {element, update, resize, repaint, table, picture}. A host that can answer questions
// (header.live, or no header yet) also has a text box, which stays while answers come and go.

import { asksFor, joined, ownAddress, pageAddress, questionIn } from "./address.js";
import { alignView } from "./align.js";
import { openAsking } from "./asking.js";
import { attributionView } from "./attribution.js";
import { beamView } from "./beam.js";
import { askBox } from "./box.js";
import { coloursFor } from "./colour.js";
import { compareView } from "./compare.js";
import { active, focusNamed, h, nameOf } from "./dom.js";
import { actionsOf, markTab, showNotes, showSettings, tabsOf, titleOf } from "./frame.js";
import { flowView } from "./flow.js";
import { headsView } from "./heads.js";
import { insideView } from "./inside.js";
import { asked, keepPlain } from "./keys.js";
import { lensView } from "./lens.js";
import { iterationsView } from "./iterations.js";
import { linesView } from "./lines.js";
import { mapView } from "./map.js";
import { matrixView } from "./matrix.js";
import { openOther } from "./other.js";
import { piecesView } from "./pieces.js";
import { openPlanes } from "./planes.js";
import { replayView } from "./replay.js";
import { changed, firstSelection, fromAddress, isStep, toAddress } from "./selection.js";
import { stepsView } from "./steps.js";
import { switchesView } from "./switches.js";
import { tablesView } from "./tables.js";
import { tellsOf } from "./telling.js";

const MAKERS = {
  iterations: iterationsView, align: alignView, lines: linesView, matrix: matrixView, map: mapView, steps: stepsView, beam: beamView,
  lens: lensView, switches: switchesView, attribution: attributionView, inside: insideView, flow: flowView,
  compare: compareView, replay: replayView, heads: headsView, pieces: piecesView, tables: tablesView,
};

// Draws one answer into `body`: {show, recall, remove}. The selection is read from the address and written back to it.
function draw({ model, el, body, place, asking, other }) {
  const header = model.get("header");
  const { planes, close } = openPlanes(model);
  const first = firstSelection(header);
  const night = matchMedia("(prefers-color-scheme: dark)");
  const live = h("p", { class: "live", "aria-live": "polite" });
  const shared = {
    header, planes, el, asking, other,
    state: fromAddress(place.read(), header),
    colours: coloursFor(night.matches ? "dark" : "light"),
    say: (text) => (live.textContent = text),
    choose: (patch) => move(changed(shared.state, patch, header)),
  };
  const views = {};
  const current = () => (views[shared.state.view] = views[shared.state.view] || MAKERS[shared.state.view](shared));
  const [settings, notes] = [h("div", { class: "settings" }), h("div", { class: "notes" })];
  const panel = h("section", { role: "tabpanel", class: "panel" });
  const tabs = tabsOf(shared);
  const actions = actionsOf(shared, current);
  const card = h("div", { class: "card" }, panel, live, notes, actions.element);
  body.replaceChildren(titleOf(header), h("nav", {}, tabs, settings), card);

  async function show() {
    el.dataset.state = "drawing";
    const view = current();
    markTab(tabs, shared.state.view);
    showSettings(settings, shared);
    showNotes(notes, shared);
    if (panel.firstChild !== view.element) {
      const left = panel.contains(active(el));
      panel.replaceChildren(view.element);
      if (left) tabs.querySelector("[aria-selected=true]").focus(); // the focus moves to the tab of the new view
    }
    await view.update();
    el.dataset.state = "ready";
  }

  function move(next) {
    const before = shared.state;
    shared.state = next;
    place.write(joined(asking && asking.question, toAddress(next, first)), isStep(before, next));
    if (before.view !== next.view) shared.say("");
    return show();
  }

  const recall = () => {
    shared.state = fromAddress(place.read(), header);
    return show();
  };
  const recolour = () => {
    shared.colours = coloursFor(night.matches ? "dark" : "light");
    Object.values(views).forEach((view) => view.repaint());
  };
  const press = (event) => {
    const typing = event.target.matches && event.target.matches("input[type=range], select, textarea");
    if (event.key === "?") actions.toggle();
    const patch = typing ? null : asked(event, shared);
    if (!patch) return;
    event.preventDefault();
    shared.choose(patch);
  };
  const sizes = new ResizeObserver(() => current().resize());
  sizes.observe(panel);
  body.addEventListener("keydown", press);
  night.addEventListener("change", recolour);

  const remove = () => {
    sizes.disconnect();
    body.removeEventListener("keydown", press);
    night.removeEventListener("change", recolour);
    close();
    body.replaceChildren();
  };
  return { show, recall, remove };
}

// A model made of the data in the page.
export function fromFile(data) {
  return { get: (key) => data[key], on: () => {}, off: () => {}, send: () => {} };
}

const inspector = {
  render({ model, el, address = false }) {
    const header = () => model.get("header");
    const place = address ? pageAddress() : ownAddress();
    const body = h("div", { class: "found" });
    const tells = tellsOf(model);
    const asking = !header() || header().live ? openAsking(model, tell) : null;
    const box = asking && askBox(asking, { example: model.get("example"), tells }, ask);
    const other = openOther(model, asking, () => drawn && drawn.show());
    let drawn = null;
    el.classList.add("manyheads-inspector");
    el.replaceChildren(...(box ? [box.element] : []), body);

    function ask(patch) {
      asking.askText(patch, "box");
      place.write(asksFor(asking.question, place.read()), true);
    }

    function tell(seen) {
      el.setAttribute("aria-busy", String(asking.busy));
      box.update(header());
      if (drawn && seen) drawn.show();
    }

    // Redraws for a new answer, restoring the focus and keeping the height of the page meanwhile.
    async function renew() {
      const used = body.contains(active(el)) ? nameOf(active(el)) : null;
      body.style.setProperty("min-height", `${body.offsetHeight}px`);
      if (drawn) drawn.remove();
      drawn = draw({ model, el, body, place, asking, other });
      await drawn.show();
      body.style.removeProperty("min-height");
      if (used && !el.contains(active(el))) focusNamed(body, used);
    }

    function recall() {
      const question = asking && questionIn(place.read(), tells);
      const same = question && Object.keys(question).every((key) => question[key] === asking.question[key]);
      if (question && !same) {
        box.fill(question);
        asking.askText(question, "box");
      } else if (drawn) drawn.recall();
    }

    el.addEventListener("keydown", keepPlain);
    model.on("change:header", renew);
    place.listen(recall);
    if (box) box.update(header());
    if (header()) renew();
    else recall();
    return () => {
      el.removeEventListener("keydown", keepPlain);
      model.off("change:header", renew);
      place.close();
      if (asking) asking.close();
      if (drawn) drawn.remove();
      other.close();
      el.replaceChildren();
    };
  },
};

export default inspector;
