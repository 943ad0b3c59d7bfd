// Every head at one moment of training, with the followed measure.

import { css } from "./colour.js";
import { active, h, replace, rove } from "./dom.js";
import { fitBlocks, headBlock, nearest } from "./headblocks.js";
import { meaningOfTrack } from "./moments.js";
import { thumbnail, thumbnailGrids } from "./thumbnails.js";
import { KINDS } from "./weights.js";

const LARGEST_THUMB = 72;
const TINT_OF_NUMBER = 0.55; // of full colour, behind the largest number, so that it stays readable
const UNBOUNDED = ["entropy", "distance"]; // measures that are not shares of 1

// choose, tell and point (with the event or null) are called with a head: {kind, layer, head}.
export function makeHeadMap(header, { choose, tell, point }) {
  const meaning = h("p", { class: "meaning" });
  const blocks = h("div", { class: "blocks" });
  const element = h("div", { class: "formed-map" }, meaning, blocks);
  const buttons = []; // [place, button]
  replace(blocks, KINDS.map((kind) => headBlock(header, kind, (layer, head) => thumbOf({ kind, layer, head }))));

  function thumbOf(place) {
    const { kind, layer, head } = place;
    const acts = {
      click: () => choose(place), focus: () => tell(place),
      pointermove: (event) => point(place, event), pointerleave: () => point(place, null),
    };
    const label = `${kind}, layer ${layer}, head ${head}`;
    const made = h("button", { type: "button", class: "thumb", "aria-label": label, tabindex: -1, ...acts },
      h("span", { class: "face" }), h("span", { class: "value" }));
    buttons.push([place, made]);
    return made;
  }

  // Unbounded measures are scaled by the largest of all heads at all moments.
  function showNumbers({ n, place: chosen, numbers }, track, colours) {
    meaning.textContent = `${track}: ${meaningOfTrack(track)}`;
    const moments = [...header.replay.steps.keys()];
    const all = buttons.flatMap(([place]) => moments.map((moment) => numbers(moment, place, track) || 0));
    const most = UNBOUNDED.includes(track) ? Math.max(1e-9, ...all) : 1;
    for (const [place, made] of buttons) {
      const value = numbers(n, place, track);
      const known = !Number.isNaN(value);
      const share = known ? (TINT_OF_NUMBER * value) / most : 0;
      made.lastChild.textContent = known ? value.toFixed(2) : "–";
      made.style.setProperty("--tint", known ? css(colours.weight(share)) : "transparent");
      made.style.setProperty("--on", known ? colours.onWeight(share) : "inherit");
      made.toggleAttribute("aria-current", ["kind", "layer", "head"].every((key) => place[key] === chosen[key]));
    }
    const thumbs = buttons.map(([, made]) => made);
    const used = thumbs.indexOf(active(element));
    rove(thumbs, used >= 0 ? used : thumbs.findIndex((one) => one.hasAttribute("aria-current")));
    fit();
  }

  // seen: a `shared` object with the planes of one moment. current(): whether the thumbnails are still wanted.
  async function showThumbs(seen, colours, current) {
    const layers = (kind) => [...Array(header.model.layers[kind]).keys()];
    await Promise.all(KINDS.flatMap((kind) => layers(kind).map(async (layer) => {
      const grids = await thumbnailGrids(seen, kind, layer);
      if (!current()) return;
      buttons.filter(([place]) => place.kind === kind && place.layer === layer).forEach(([place, made]) =>
        replace(made.firstChild, thumbnail(grids[place.head], colours)));
    })));
  }

  function fit() {
    fitBlocks(element, header.model.heads, LARGEST_THUMB);
  }

  const beside = (thumb, key) => nearest(buttons.map(([, made]) => made), thumb, key);
  return { element, showNumbers, showThumbs, fit, beside };
}
