// Weights as a list: the word, a bar, the number.

import { h, replace } from "./dom.js";
import { spelt } from "./letters.js";
import { exact } from "./numbers.js";

// [[index, weight]], heaviest first.
export function heaviest(weights, most = Infinity) {
  const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a] || a - b);
  return order.slice(0, most).map((n) => [n, weights[n]]);
}

export function showBars(list, units, ranked, blanks, rest) {
  const items = ranked.map(([n, weight]) => {
    const bar = h("span", { class: "bar" });
    bar.style.setProperty("--share", weight);
    return h("li", {}, h("bdi", { class: "label" }, spelt(units[n].text, blanks)), bar, h("span", { class: "number" }, exact(weight)));
  });
  replace(list, items, rest ? h("li", { class: "rest" }, rest) : null);
}
