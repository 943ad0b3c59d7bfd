// The film strip of a replay: one head at some of the training steps, side by side.

import { h, replace, rove } from "./dom.js";
import { spread, stepName } from "./moments.js";
import { clamp } from "./numbers.js";
import { thumbnail } from "./thumbnails.js";

const FRAME_WIDE = 78; // pixels of a frame with the space beside it
const FRAMES = [2, 14];

// move(moment) is called when a frame is clicked.
export function makeFilm(steps, move) {
  const element = h("div", { class: "film", role: "group", "aria-label": "This head over training steps" });

  function show(grids, colours) {
    const places = spread(steps.length, clamp(Math.floor(element.clientWidth / FRAME_WIDE), ...FRAMES));
    replace(element, places.map((n) => h("button", {
      type: "button", class: "film-frame", "data-moment": n, "aria-label": `step ${stepName(steps[n])}`, tabindex: -1,
      click: () => move(n),
    }, h("span", { class: "face" }, thumbnail(grids[n], colours)), h("span", {}, stepName(steps[n])))));
  }

  // Marks the frame of the moment or, less prominently, the nearest one.
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

  // Moves the focus to the next frame and returns its moment; null if `from` is not a frame.
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
