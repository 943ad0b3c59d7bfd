// Checkboxes for heads. Several can be on at once, each in its own colour.

import { h } from "./dom.js";
import { hueOf, isHollow } from "./hues.js";
import { headsOn, toggled } from "./linesscene.js";

export function headToggles(shared) {
  const { header, colours, choose } = shared;
  const heads = [...Array(header.model.heads).keys()];
  const on = headsOn(shared);
  const toggle = (head) => {
    const name = head === null ? "mean" : String(head);
    const act = (event) => choose(toggled(shared, head, event.target.checked));
    const input = h("input", { type: "checkbox", value: name, checked: on.includes(head), change: act });
    const dot = h("i", { class: isHollow(head) ? "dot hollow" : "dot" });
    const label = h("label", { "aria-label": head === null ? "mean of heads" : `head ${name}` });
    label.style.setProperty("--hue", hueOf(head, colours.theme));
    label.append(input, h("span", {}, dot, name));
    return label;
  };
  const all = heads.every((head) => on.includes(head));
  const every = () => choose(all ? { head: null } : { heads: heads.join(".") });
  return h("fieldset", { class: "choice heads", "aria-label": "Heads" },
    h("span", { class: "name" }, "Heads"),
    h("span", { class: "options" }, [null, ...heads].map(toggle)),
    h("button", { type: "button", class: "plain", click: every }, all ? "Mean only" : "All"));
}
