// One block of the switchboard: the heads of one kind of attention, a row per layer. The labels of the block and of its
// layers switch all their heads. Arrow keys move within the block; it is one stop of the Tab key.

import { css } from "./colour.js";
import { h, rove } from "./dom.js";
import { roleOfKind } from "./models.js";
import { clamp, hundredths, signed } from "./numbers.js";

const MOST_NUMBERED = 8; // heads in a row, above which numbers do not fit into the switches

export function sameHead(one, other) {
  return one.kind === other.kind && one.layer === other.layer && one.head === other.head;
}

// look: {off, ranking, colours, live, header}; acts: {toggle(heads), say(text)}
export function switchBlock(kind, look, { toggle, say }) {
  const { heads, layers } = look.header.model;
  const inLayer = (layer) => [...Array(heads).keys()].map((head) => ({ kind, layer, head }));
  const all = [...Array(layers[kind]).keys()].map(inLayer);
  const label = (text, name, group) => {
    if (!look.live) return h("span", { class: "group" }, text);
    return h("button", { type: "button", class: "group", "aria-label": name, click: () => toggle(group) }, text);
  };
  const title = label(kind, `all ${kind} heads`, all.flat());
  const rows = all.map((row, layer) => [
    label(String(layer), `${kind} layer ${layer}`, row), ...row.map((one) => headSwitch(one, look, toggle, say)),
  ]);
  const corners = ["layer", ...Array(heads).keys()].map((text) => h("span", { class: "corner" }, String(text)));
  const grid = h("div", { class: heads > MOST_NUMBERED ? "switch-grid narrow" : "switch-grid", role: "group", "aria-label": kind },
    corners, rows.flat());
  grid.style.setProperty("--heads", heads);
  const cells = [[title], ...rows].map((row) => row.filter((cell) => look.live || !cell.matches(".group")));
  rove(cells.flat(), look.live ? 2 : 0); // starts at the first head; labels are reached from there
  const element = h("section", { class: "switch-block" }, h("p", { class: "lead" }, title, h("small", {}, roleOfKind(look.header, kind))), grid);
  element.addEventListener("keydown", (event) => stepIn(cells.filter((row) => row.length), event));
  return element;
}

function headSwitch(one, { off, ranking, colours, live }, toggle, say) {
  const isOff = off.some((other) => sameHead(one, other));
  const change = ranking ? ranking.change(one) : null;
  const name = `${one.kind} layer ${one.layer}, head ${one.head}`;
  const exactly = change === null ? "" : `without it ${signed(change)}`;
  const told = () => say([`${name}: ${isOff ? "off" : "on"}`, exactly].filter(Boolean).join("; "));
  const role = live
    ? { type: "button", role: "switch", "aria-checked": String(!isOff), "aria-label": name, click: () => toggle([one]) }
    : { role: "img", "aria-label": exactly ? `${name}: ${exactly}` : name };
  const look = { class: isOff ? "switch off" : "switch", title: exactly ? `${name}: ${exactly}` : null };
  const shown = change === null ? "" : hundredths(change);
  const element = h(live ? "button" : "span", { ...role, ...look, pointerenter: told, focus: told }, shown);
  if (change !== null && !isOff) {
    element.style.setProperty("--tint", css(colours.signed(ranking.tint(one))));
    element.style.setProperty("--on", colours.onSigned(ranking.tint(one)));
  }
  return element;
}

export function stepIn(rows, event) {
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const at = rows.findIndex((row) => row.includes(event.target));
  if (!by || at < 0) return;
  event.preventDefault();
  const row = rows[clamp(at + by[0], 0, rows.length - 1)];
  const next = row[clamp(rows[at].indexOf(event.target) + by[1], 0, row.length - 1)];
  rove(rows.flat(), rows.flat().indexOf(next));
  next.focus();
}
