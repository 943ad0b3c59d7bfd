// The inspector: render({ model, el }) draws it into an element and returns what takes it away again.
//
// The model is that of anywidget: get("header"), get("planes"), on, off, send. One selection is shared by all views;
// each view is {element, update, resize, repaint, table, picture}.

import { alignView } from "./align.js";
import { coloursFor } from "./colour.js";
import { active, h } from "./dom.js";
import { actionsOf, markTab, showNotes, showSettings, tabsOf, titleOf } from "./frame.js";
import { insideView } from "./inside.js";
import { asked } from "./keys.js";
import { linesView } from "./lines.js";
import { mapView } from "./map.js";
import { matrixView } from "./matrix.js";
import { openPlanes } from "./planes.js";
import { changed, firstSelection, fromAddress, isStep, toAddress } from "./selection.js";

const MAKERS = { align: alignView, lines: linesView, matrix: matrixView, map: mapView, inside: insideView };

function draw({ model, el, address }) {
  const header = model.get("header");
  const { planes, close } = openPlanes(model);
  const first = firstSelection(header);
  const night = matchMedia("(prefers-color-scheme: dark)");
  const live = h("p", { class: "live", "aria-live": "polite" });
  const shared = {
    header, planes, el,
    state: address ? fromAddress(location.hash, header) : first,
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
  el.classList.add("manyheads-inspector");
  const card = h("div", { class: "card" }, panel, live, notes, actions.element);
  el.replaceChildren(titleOf(header), h("nav", {}, tabs, settings), card);

  async function show() {
    el.dataset.state = "drawing";
    const view = current();
    markTab(tabs, shared.state.view);
    showSettings(settings, shared);
    showNotes(notes, shared);
    if (panel.firstChild !== view.element) {
      const left = panel.contains(active(el));
      panel.replaceChildren(view.element);
      if (left) tabs.querySelector("[aria-selected=true]").focus(); // keys work on where they have led
    }
    await view.update();
    el.dataset.state = "ready";
  }

  function move(next) {
    const before = shared.state;
    shared.state = next;
    if (address) remember(toAddress(next, first), isStep(before, next));
    if (before.view !== next.view) shared.say("");
    return show();
  }

  const recall = () => {
    shared.state = fromAddress(location.hash, header);
    show();
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
  el.addEventListener("keydown", press);
  night.addEventListener("change", recolour);
  if (address) window.addEventListener("popstate", recall);
  show();

  return () => {
    sizes.disconnect();
    el.removeEventListener("keydown", press);
    night.removeEventListener("change", recolour);
    window.removeEventListener("popstate", recall);
    close();
    el.replaceChildren();
  };
}

// Steps can be undone with the back button; moves of the selection only change the address.
function remember(text, step) {
  const url = `#${text}`;
  if (url === (location.hash || "#")) return;
  try {
    history[step ? "pushState" : "replaceState"](null, "", url);
  } catch {
    // A frame that was given its text, not its address, has none to change.
  }
}

// A model out of a page's own data.
export function fromFile(data) {
  return { get: (key) => data[key], on: () => {}, off: () => {}, send: () => {} };
}

const inspector = {
  render({ model, el, address = false }) {
    let remove = draw({ model, el, address });
    const renew = () => {
      remove();
      remove = draw({ model, el, address });
    };
    if (model.on) model.on("change:header", renew);
    return () => {
      if (model.off) model.off("change:header", renew);
      remove();
    };
  },
};

export default inspector;
