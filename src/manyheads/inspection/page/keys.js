// Keyboard shortcuts that work anywhere in an inspector. Arrow keys belong to the views.

import { h } from "./dom.js";
import { viewsOf } from "./models.js";
import { changed } from "./selection.js";

const HELP = [
  ["1 2 3 …", "Choose a view"],
  ["arrows", "Next word, weight, query, key or node"],
  ["[ ]", "Previous or next layer"],
  ["{ }", "Previous or next head"],
  ["w", "Words or pieces"],
  ["b", "Hide begin and end"],
  ["+ − 0", "Zoom the matrix"],
  ["l", "Open a head of the map in the lines"],
  ["space", "Play; switch a head"],
  ["Enter", "Pin the highlighted word"],
  ["Esc", "Unpin"],
  ["?", "Show or hide these keys"],
];

export function keyHelp() {
  const items = HELP.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)));
  return h("dl", { class: "keys", hidden: true }, items);
}

// Keys without Ctrl, Alt or Meta do not propagate beyond the inspector: in a notebook, a plain letter can cut a cell
// and an arrow leaves it.
export function keepPlain(event) {
  if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
}

// The change of the selection that a key requests, or null.
export function asked(event, { state, header }) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const towards = { "[": ["layer", -1], "]": ["layer", 1], "{": ["head", -1], "}": ["head", 1] }[event.key];
  if (towards) return stepped(...towards, state, header);
  if (event.key === "w") return { words: !state.words };
  if (event.key === "b") return { hide: !state.hide };
  if (event.key === "Escape") return { source: null, target: null, other: null, place: null };
  const view = viewsOf(header)[event.key - 1];
  return view ? { view } : null;
}

// Layers and heads wrap around. The mean of heads comes before the first head, in views that can show it.
function stepped(what, by, state, header) {
  const linked = state.view === "align" || (state.view === "tables" && state.form === "alignment");
  const links = linked ? { links: "head" } : {};
  const now = changed(state, links, header);
  const round = (n, count) => (n + by + count) % count;
  if (what === "layer") return { ...links, layer: round(now.layer, header.model.layers[now.kind]) };
  if (["inside", "flow", "replay"].includes(state.view)) return { head: round(state.head || 0, header.model.heads) };
  const next = round(state.head === null ? 0 : state.head + 1, header.model.heads + 1);
  return { ...links, head: next === 0 ? null : next - 1 };
}
