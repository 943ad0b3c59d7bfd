// Heads ranked by how the log-probability of a translation changes without each.

import { css } from "./colour.js";
import { h } from "./dom.js";
import { signed } from "./numbers.js";

const NEEDED = 10;
const HINDERING = 5;

// {heads, most, change(head), tint(head)}, or null. A tint is between −1 and 1, above 0 for heads that help. It grows
// with the square root, because a few heads matter most.
export function ranksOf(heads) {
  if (!heads) return null;
  const name = ({ kind, layer, head }) => `${kind} ${layer}.${head}`;
  const changes = new Map(heads.map((one) => [name(one), one.change]));
  const most = Math.max(1e-9, ...heads.map((one) => Math.abs(one.change)));
  const change = (one) => changes.get(name(one));
  return { heads, most, change, tint: (one) => -Math.sign(change(one)) * Math.sqrt(Math.abs(change(one)) / most) };
}

// `what` names the text that heads were ranked for.
export function rankLegend(colours, what) {
  const swatches = [-1, -0.6, -0.3, 0, 0.3, 0.6, 1].map((value) => {
    const swatch = h("i", { class: "swatch" });
    swatch.style.setProperty("--tint", css(colours.signed(value)));
    return swatch;
  });
  const meaning = `the change in log-probability of ${what} when that head is removed. Colour grows with its square root.`;
  return h("p", { class: "note" }, "hurts ", swatches, ` helps. Numbers: ${meaning}`);
}

// `toggle` is null on pages where heads cannot be switched.
export function rankLists(ranking, toggle) {
  const needed = ranking.heads.filter((one) => one.change < 0).slice(0, NEEDED);
  const hindering = ranking.heads.filter((one) => one.change > 0).slice(-HINDERING).reverse();
  return h("div", { class: "two" },
    list("Most important", needed, ranking, toggle),
    list("Most harmful", hindering, ranking, toggle));
}

function list(title, heads, ranking, toggle) {
  const items = heads.map(({ change, ...one }) => {
    const bar = h("span", { class: change < 0 ? "bar" : "bar against" });
    bar.style.setProperty("--share", Math.abs(change) / ranking.most);
    const name = `${one.kind} ${one.layer}.${one.head}`;
    const label = toggle
      ? h("button", { type: "button", class: "label", title: "Switch off or on", click: () => toggle([one]) }, name)
      : h("span", { class: "label" }, name);
    return h("li", {}, label, bar, h("span", { class: "number" }, signed(change)));
  });
  const none = h("li", { class: "rest" }, "none");
  return h("div", {}, h("p", { class: "lead" }, title), h("ol", { class: "bars" }, items.length ? items : none));
}
