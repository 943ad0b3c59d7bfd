// Describes A and B: what each read and wrote, with differing words marked, and the other facts that differ.

import { compared } from "./diff.js";
import { h } from "./dom.js";
import { fact } from "./facts.js";
import { visible } from "./letters.js";
import { signed } from "./numbers.js";

export function sideCards([a, b]) {
  const [one, other] = [a.header, b.header];
  const read = compared(one.source, other.source, ["read", "read"]);
  const written = compared(one.target, other.target, ["wrote", "wrote"]);
  const without = (off) => off.map(([kind, layer, head]) => `${kind} ${layer}.${head}`).join(", ");
  const change = other.log_probability - one.log_probability;
  return ["A", "B"].map((name, n) => {
    const { header } = [a, b][n];
    return h("section", { class: "who-is", "aria-label": name },
      h("h3", {}, name),
      h("div", { class: "compared" }, read[n], written[n]),
      h("dl", { class: "facts" },
        fact("model", visible(header.model.name || "unnamed")),
        header.off.length ? fact(header.means ? "heads replaced by means" : "without", without(header.off)) : null,
        header.forced ? fact("translation", "given") : null,
        fact("log-probability", signed(header.log_probability)),
        n && one.source.text === other.source.text ? fact("B − A", signed(change)) : null));
  });
}
