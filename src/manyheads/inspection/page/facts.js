// A named value in a list of facts.

import { h } from "./dom.js";

export function fact(name, value, more = null) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value, more ? h("small", {}, ` ${more}`) : null));
}
