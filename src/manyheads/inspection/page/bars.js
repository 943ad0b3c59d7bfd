// Weights as a list of words, each with a bar and a number.

import { h, replace } from "./dom.js";
import { spelt } from "./letters.js";
import { exact } from "./numbers.js";
import { rowOf } from "./weights.js";

const MOST_PAIRS = 24;

// [[index, weight]], heaviest first.
export function heaviest(weights, most = Infinity) {
  const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a] || a - b);
  return order.slice(0, most).map((n) => [n, weights[n]]);
}

// The heaviest weight of each row.
export function showPairs(list, grid, blanks) {
  list.classList.add("pairs");
  const left = grid.rows.length - MOST_PAIRS;
  replace(list, grid.rows.slice(0, MOST_PAIRS).map((unit, row) => {
    const [[n, weight]] = heaviest(rowOf(grid, row), 1);
    const names = [h("bdi", {}, spelt(unit.text, blanks)), " → ", h("bdi", {}, spelt(grid.columns[n].text, blanks))];
    return h("li", {}, h("span", { class: "label" }, names), h("span", { class: "number" }, exact(weight)));
  }), left > 0 ? h("li", { class: "rest" }, `${left} more`) : null);
}

export function showBars(list, units, ranked, blanks, rest) {
  list.classList.remove("pairs");
  const items = ranked.map(([n, weight]) => {
    const bar = h("span", { class: "bar" });
    bar.style.setProperty("--share", weight);
    const name = h("bdi", { class: "label" }, spelt(units[n].text, blanks));
    return h("li", {}, name, bar, h("span", { class: "number" }, exact(weight)));
  });
  replace(list, items, rest ? h("li", { class: "rest" }, rest) : null);
}
