// The film of a replay: one head at some of the steps, side by side.

import { h, replace, rove } from "./dom.js";
import { spread, stepName } from "./moments.js";
import { clamp } from "./numbers.js";
import { thumbnail } from "./thumbnails.js";

const FRAME_WIDE = 78; // pixels of a picture and the space beside it
const FRAMES = [2, 14];

// move(moment) is told which one was clicked.
export function makeFilm(steps, move) {
  const element = h("div", { class: "film", role: "group", "aria-label": "This head over the steps" });

  function show(grids, colours) {
    const places = spread(steps.length, clamp(Math.floor(element.clientWidth / FRAME_WIDE), ...FRAMES));
    replace(element, places.map((n) => h("button", {
      type: "button", class: "film-frame", "data-moment": n, "aria-label": `step ${stepName(steps[n])}`, tabindex: -1,
      click: () => move(n),
    }, h("span", { class: "face" }, thumbnail(grids[n], colours)), h("span", {}, stepName(steps[n])))));
  }

  // The picture of the moment; else, less loudly, the one that is nearest.
  function mark(moment) {
    const frames = [...element.children];
    const away = frames.map((frame) => Math.abs(Number(frame.dataset.moment) - moment));
    const at = away.indexOf(Math.min(...away));
    frames.forEach((frame, n) => {
      frame.toggleAttribute("aria-current", n === at && !away[n]);
      frame.classList.toggle("near", n === at && away[n] > 0);
    });
    rove(frames, at);
  }

  // From a picture to the one beside it: its moment, or null where it was none.
  function beside(from, by) {
    const frames = [...element.children];
    const at = frames.indexOf(from);
    if (at < 0) return null;
    const next = frames[clamp(at + by, 0, frames.length - 1)];
    next.focus();
    return Number(next.dataset.moment);
  }

  return { element, show, mark, beside };
}
