// View 7, layer lens: what the model would write at each step if it stopped after each layer. Colours show how likely
// the piece that was finally written already is.

import { showBars } from "./bars.js";
import { css } from "./colour.js";
import { active, h, intoSight, replace, rove } from "./dom.js";
import { lensPicture } from "./lenspicture.js";
import { spelt, visible } from "./letters.js";
import { firstWritten } from "./models.js";
import { clamp, exact } from "./numbers.js";
import { firstRow, nameOfRow } from "./rows.js";
import { makeTip } from "./tip.js";

const APPLIED = {
  true: "The model’s last norm and output table are applied after each layer, as the model does after the last one.",
  false: "The model’s output table is applied after each layer; in this model, every layer ends with its own norm.",
};
const NOT_TRAINED_FOR = "Lower layers were never trained to be read like this; the top row is the model’s own choice.";
const LABEL = 84; // pixels of the sticky layer names

export function lensView(shared) {
  const { lens, target } = shared.header;
  const grid = h("div", { class: "lens-grid", role: "grid", "aria-label": "Layers and steps" });
  const scroll = h("div", { class: "tree" }, grid);
  const lead = h("p", { class: "lead" });
  const bars = h("ol", { class: "bars" });
  const fate = h("p", { class: "lead" });
  const byLayer = h("ol", { class: "bars by-layer" });
  const element = h("div", { class: "lens" },
    h("p", { class: "aside" }, "What each layer would write. Colour and number show the probability and the rank, in that layer, of the ",
      "piece that was finally written."),
    scroll,
    h("div", { class: "two" }, h("section", {}, lead, bars), h("section", {}, fate, byLayer)),
    h("p", { class: "note" }, `${APPLIED[lens.norm]} ${NOT_TRAINED_FOR}`));
  const tip = makeTip(element);
  const [layers, steps, first] = [lens.layers.length, lens.layers[0].length, firstRow(shared.header)];

  const now = () => ({
    layer: Math.min(shared.state.layer, layers - 1), step: clamp((shared.state.target || firstWritten(shared.header)) - first, 0, steps - 1),
  });
  const at = ({ layer, step }) => lens.layers[layer][step];
  const written = (step) => target.pieces[step + first];
  const share = (one) => Math.exp(one.log_probability);

  function update() {
    const used = grid.contains(active(element));
    const chosen = now();
    grid.style.setProperty("--steps", steps);
    const corner = h("span", { class: "corner" }, "written");
    const heads = target.pieces.slice(first).map((piece, step) =>
      h("span", { class: step === chosen.step ? "heading chosen" : "heading", role: "columnheader" },
        h("bdi", {}, spelt(piece.text, true))));
    const rows = [...Array(layers).keys()].reverse().map((layer) => h("div", { class: "row", role: "row" },
      h("span", { class: "corner", role: "rowheader" }, `layer ${layer}`),
      [...Array(steps).keys()].map((step) => cellOf({ layer, step }, chosen))));
    replace(grid, h("div", { class: "row", role: "row" }, corner, heads), rows);
    const cells = [...grid.querySelectorAll("button")];
    const place = (layers - 1 - chosen.layer) * steps + chosen.step;
    rove(cells, place);
    if (used) cells[place].focus();
    if (shared.state.target !== null || chosen.step > 0) intoSight(scroll, cells[place], LABEL);
    tell(chosen);
  }

  function cellOf(place, chosen) {
    const one = at(place);
    const [best] = one.candidates;
    const same = best.id === written(place.step).id;
    const made = h("button", {
      type: "button", role: "gridcell", class: same ? "says same" : "says", "aria-label": visible(sentence(place)),
      "aria-pressed": String(place.layer === chosen.layer && place.step === chosen.step),
      click: () => shared.choose({ layer: place.layer, target: place.step + first }),
      pointerleave: tip.hide,
      pointermove: (event) => tip.show(event, h("b", {}, exact(share(best))),
        h("bdi", {}, `predicts ‘${visible(best.text)}’`), h("small", {}, fateOf(place))),
    }, h("bdi", { class: "label" }, spelt(best.text, true)), h("span", { class: "rank" }, `${one.rank + 1}`));
    made.style.setProperty("--tint", css(shared.colours.weight(share(one))));
    made.style.setProperty("--on", shared.colours.onWeight(share(one)));
    return made;
  }

  function fateOf(place) {
    const one = at(place);
    return `‘${visible(written(place.step).text)}’: rank ${one.rank + 1}, ${exact(share(one))}`;
  }

  function sentence(place) {
    const [best] = at(place).candidates;
    const says = `layer ${place.layer}, ${nameOfRow(shared.header, place.step)}: predicts ‘${visible(best.text)}’ ${exact(share(best))}`;
    return `${says}; finally written ${fateOf(place)}`;
  }

  function tell(place) {
    const one = at(place);
    replace(lead, `After layer ${place.layer}, ${nameOfRow(shared.header, place.step)}`,
      h("small", {}, place.layer === layers - 1 ? "the model’s own choice" : "what it would write if it stopped here"));
    showBars(bars, one.candidates, one.candidates.map((candidate, n) => [n, share(candidate)]), true, null);
    replace(fate, h("bdi", {}, `‘${visible(written(place.step).text)}’`), " by layer",
      h("small", {}, "its probability and rank after each layer"));
    replace(byLayer, [...Array(layers).keys()].reverse().map((layer) => {
      const other = at({ layer, step: place.step });
      const bar = h("span", { class: "bar" });
      bar.style.setProperty("--share", share(other));
      const name = h("span", { class: "label" }, `layer ${layer}`);
      return h("li", { class: layer === place.layer ? "chosen" : "" }, name, bar,
        h("span", { class: "number" }, exact(share(other))), h("span", { class: "number" }, `rank ${other.rank + 1}`));
    }));
    shared.say(visible(sentence(place)));
  }

  grid.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    const { layer, step } = now();
    shared.choose({ layer: clamp(layer + by[0], 0, layers - 1), target: clamp(step + by[1], 0, steps - 1) + first });
  });

  return {
    element,
    update,
    resize: () => {},
    repaint: update,
    table: () => lensTable(shared.header),
    picture: () => lensPicture(shared.header),
  };
}

function lensTable(header) {
  const { lens, target } = header;
  const first = firstRow(header);
  const names = ["layer", "step", "written", "rank", "probability", "says", "says_probability"];
  return [names, ...lens.layers.flatMap((row, layer) => row.map((one, step) => [
    layer, step + 1, target.pieces[step + first].text, one.rank + 1, Math.exp(one.log_probability).toFixed(6),
    one.candidates[0].text, Math.exp(one.candidates[0].log_probability).toFixed(6),
  ]))];
}
