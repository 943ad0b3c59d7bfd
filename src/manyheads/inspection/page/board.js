// The board that shows a heat map: its size, the visible part, and the cell under the mouse.

import { h } from "./dom.js";
import { cellAt, LABEL_FONT, paint, panned, placesOf } from "./heatmap.js";
import { clamp } from "./numbers.js";

const CLOSER = 1.4;
const CLOSEST = 40;
const ZOOMS = { "+": CLOSER, "=": CLOSER, "-": 1 / CLOSER, 0: 0 };
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// Callbacks for mouse and keys: look(cell or null, event), pin(cell), go(by).
export function makeBoard({ look, pin, go }) {
  const canvas = h("canvas", {});
  const label = "Heat map. Use the arrow keys to move from cell to cell.";
  const element = h("div", { class: "board", tabindex: 0, role: "application", "aria-label": label }, canvas);
  let what = null; // what `paint` needs, except places and pan
  let [places, room, zoom, pan] = [null, 0, 1, [0, 0]];
  let dragged = null;

  function show(next, width) {
    const size = (one) => one && `${one.grid.rows.length} ${one.grid.columns.length}`;
    if (size(what) !== size(next)) [zoom, pan] = [1, [0, 0]];
    what = next;
    resize(width);
  }

  function resize(width) {
    room = width;
    places = placesOf(what, room, zoom, `600 ${LABEL_FONT}px ${what.ink.sans}`);
    pan = panned(places, pan);
    sharpen(canvas, places.width, places.height);
    repaint();
  }

  function repaint() {
    paint(canvas.getContext("2d"), { ...what, places, pan });
  }

  // The cell at `point` stays there; factor 0 shows the complete grid.
  function zoomBy(factor, point = [places.left, places.top]) {
    const [before, seen] = [places.cell, pan];
    const inside = [clamp(point[0] - places.left, 0, places.wide), clamp(point[1] - places.top, 0, places.high)];
    zoom = factor ? clamp(zoom * factor, 1, CLOSEST) : 1;
    resize(room);
    const grown = places.cell / before;
    pan = panned(places, inside.map((at, n) => (at + seen[n]) * grown - at));
    repaint();
  }

  function reveal({ row, column }) {
    const into = (n, from, length) => clamp(from, (n + 1) * places.cell - length, n * places.cell);
    pan = panned(places, [into(column, pan[0], places.wide), into(row, pan[1], places.high)]);
  }

  function pointOf(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  const under = (event) => cellAt(what.grid, places, pan, ...pointOf(event));

  function drag(event) {
    const by = [event.clientX - dragged.x, event.clientY - dragged.y];
    if (!dragged.moved && Math.hypot(...by) < 4) return; // an unsteady hand, not a drag
    if (!dragged.moved) element.setPointerCapture(event.pointerId);
    dragged.moved = true;
    pan = panned(places, dragged.pan.map((at, n) => at - by[n]));
  }

  const acts = {
    pointerdown: (event) => (dragged = { x: event.clientX, y: event.clientY, pan, moved: false }),
    pointermove: (event) => {
      if (dragged && event.buttons && zoom > 1) drag(event);
      look(under(event), event);
    },
    pointerleave: () => look(null, null),
    click: (event) => {
      const cell = under(event);
      if (cell && !(dragged && dragged.moved)) pin(cell);
    },
    wheel: (event) => {
      if (!event.ctrlKey) return; // let the page scroll
      event.preventDefault();
      zoomBy(event.deltaY < 0 ? CLOSER : 1 / CLOSER, pointOf(event));
    },
    keydown: (event) => {
      if (event.key in ZOOMS) zoomBy(ZOOMS[event.key]);
      if (!(event.key in ARROWS)) return;
      event.preventDefault();
      go(ARROWS[event.key]);
    },
  };
  for (const [name, act] of Object.entries(acts)) {
    element.addEventListener(name, (event) => what && act(event), { passive: false });
  }
  return {
    element, show, repaint, reveal,
    resize: (width) => what && resize(width),
    closer: () => what && zoomBy(CLOSER),
    farther: () => what && zoomBy(1 / CLOSER),
    fit: () => what && zoomBy(0),
  };
}

// Gives a canvas the resolution of the screen.
export function sharpen(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}

// The colours of the page's style sheet, for drawing on a canvas.
export function inkOf(element) {
  const style = getComputedStyle(element);
  const names = ["ink", "soft", "faint", "line", "card", "mark", "veil", "grid", "sans"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
