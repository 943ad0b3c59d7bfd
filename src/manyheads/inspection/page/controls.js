// Controls. All are native radio buttons, checkboxes and fields with labels, so keyboards and screen readers work.

import { h } from "./dom.js";
import { kindsIn, roleOfKind } from "./models.js";

// Radio buttons of a group share a name that no other group on the page may have.
const PREFIX = `manyheads-${Math.random().toString(36).slice(2)}`;
let groups = 0;

// options: [[value, label, title?]]
export function choice(label, options, value, choose) {
  groups += 1;
  const name = `${PREFIX}-${groups}`;
  const buttons = options.map(([option, text, title]) => {
    const look = { type: "radio", name, value: String(option), checked: option === value };
    const input = h("input", { ...look, change: () => choose(option) });
    return h("label", { title: title || null }, input, h("span", {}, text));
  });
  return h("fieldset", { class: "choice", "aria-label": label },
    h("span", { class: "name" }, label), h("span", { class: "options" }, buttons));
}

export function check(label, value, choose) {
  return h("label", { class: "check", "aria-label": label },
    h("input", { type: "checkbox", checked: value, change: (event) => choose(event.target.checked) }),
    h("span", {}, label));
}

// A short text field; `look` holds the attributes of its input.
export function field(label, look) {
  return h("label", { class: "field" }, h("span", { class: "name" }, label), h("input", { autocomplete: "off", ...look }));
}

export function button(label, act, title = null) {
  return h("button", { type: "button", class: "plain", click: act, title }, label);
}

// null if the model has only one kind of attention.
export function kindChoice({ header, state, choose }) {
  const kinds = kindsIn(header).map((kind) => [kind, kind, roleOfKind(header, kind)]);
  return kinds.length > 1 ? choice("Attention", kinds, state.kind, (kind) => choose({ kind })) : null;
}

export function layerChoice({ header, state, choose }, kind = state.kind) {
  const layers = [...Array(header.model.layers[kind]).keys()];
  return choice("Layer", layers.map((n) => [n, String(n)]), state.layer, (layer) => choose({ layer }));
}

export function headChoice({ header, state, choose }, mean = true) {
  const heads = [...Array(header.model.heads).keys()].map((n) => [n, String(n)]);
  const value = mean ? state.head : state.head || 0;
  return choice("Head", mean ? [[null, "mean"], ...heads] : heads, value, (head) => choose({ head }));
}
