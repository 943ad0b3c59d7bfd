// The table of view 10: the query, then a row per key with every number from q·k to its weight.

import { h } from "./dom.js";
import { spelt } from "./letters.js";
import { exact, signed } from "./numbers.js";
import { greatest, strip } from "./strips.js";

// The value that has full colour in each kind of strip: the same in all rows, so that they can be compared.
export function fullColour({ q, keys, output }) {
  return {
    q: greatest(q),
    k: greatest(...keys.map((key) => key.key)),
    products: greatest(...keys.map((key) => key.products)),
    output: greatest(output),
  };
}

// `dotted`: scores are dot products of q and k.
export function tableHead(dotted) {
  const names = ["Key", "k", "q × k", ...(dotted ? ["q·k"] : []), "score", "e^(score − max)", "weight", "", "|v|"];
  return h("tr", {}, names.map((name) => h("th", {}, name)));
}

export function queryRow({ q }, most, dotted, colours, tip) {
  const picture = strip(q, most.q, colours, tip, (n) => `q[${n}] = ${signed(q[n])}`);
  const hint = `${q.length} numbers; blue above 0, orange below`;
  return h("tr", { class: "query" },
    h("td", {}, "q"), h("td", {}, picture), h("td", { colspan: dotted ? 7 : 6, class: "aside" }, hint));
}

// selected: the steps of this key are spelled out above the table; choose: selects it.
export function keyRow({ q }, key, text, most, dotted, colours, tip, selected, choose) {
  const about = (n) => `q[${n}] × k[${n}] = ${signed(q[n])} × ${signed(key.key[n])} = ${signed(key.products[n])}`;
  const classes = [selected ? "selected" : "", key.masked ? "masked" : ""].join(" ");
  const bar = h("span", { class: "bar" });
  bar.style.setProperty("--share", key.weight);
  return h("tr", { class: classes, "aria-selected": String(selected), click: choose },
    h("th", { scope: "row" }, h("bdi", {}, spelt(text, true))),
    h("td", {}, strip(key.key, most.k, colours, tip, about)),
    h("td", {}, strip(key.products, most.products, colours, tip, about)),
    dotted ? number(signed(key.dot)) : null,
    number(signed(key.score)),
    number(key.masked ? "masked" : exact(key.power)),
    number(exact(key.weight)),
    h("td", { class: "bar-cell" }, bar),
    number(signed(key.length)));
}

export function sumRow({ keys, sum }, dotted) {
  const all = keys.reduce((total, key) => total + key.weight, 0);
  return h("tr", { class: "sums" },
    h("td", { colspan: dotted ? 5 : 4 }, "sum"), number(exact(sum)), number(exact(all)), h("td", { colspan: 2 }));
}

function number(text) {
  return h("td", { class: "number" }, text);
}

// [[name, formula, explanation]]: the numbers of one key, step by step.
export function stepsOf({ q, largest, sum }, key, scale) {
  const score = signed(key.score);
  const scored = scale === null ? [["score", score, "learned, not a product of q and k"]] : productOf(key, q.length, scale);
  if (key.masked) return [...scored, ["mask", "masked", "not visible from here"], ["weight", "0", "exactly"]];
  return [
    ...scored,
    ["exp", `e^(${score} − ${signed(largest)}) = ${exact(key.power)}`, "relative to the largest score of the row"],
    ["weight", `${exact(key.power)} / ${exact(sum)} = ${exact(key.weight)}`, "its share of the sum of the row"],
  ];
}

function productOf(key, width, scale) {
  return [
    ["q·k", signed(key.dot), `sum of the ${width} products`],
    ["score", `${signed(key.dot)} × ${signed(scale)} = ${signed(key.score)}`, scaleName(scale, width)],
  ];
}

function scaleName(scale, width) {
  return Math.abs(scale - width ** -0.5) < 1e-9 ? `scaled by 1/√${width}` : "times the scale";
}
