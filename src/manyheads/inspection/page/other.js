// The other side of a comparison: a second bundle in the page, a result that the user keeps, or the answer before heads
// were switched off or another candidate was chosen.

import { openPlanes } from "./planes.js";

// pair(header, planes): [A, B], each {header, planes}, or null. `changed` is called when another result is kept.
export function openOther(model, asking, changed) {
  const given = model.get("other") || null;
  const opened = new Map(); // by header
  let kept = null;

  const open = (header, here) => {
    if (!opened.has(header)) opened.set(header, openPlanes(model, header, here));
    return { header, planes: opened.get(header).planes };
  };
  // What a requested answer is compared with: the kept one, or the previous one, or the one with all heads on.
  const before = (header) => {
    const trail = asking ? asking.trail : [];
    const found = kept || (trail.length ? trail[trail.length - 1].header : header.off.length && asking && asking.base);
    return found && found !== header ? found : null;
  };
  return {
    possible: Boolean(given || asking),
    keeps: Boolean(asking),
    get kept() {
      return kept;
    },
    keep: (header) => {
      kept = header;
      changed();
    },
    pair: (header, planes) => {
      const now = { header, planes };
      if (kept || !given) return before(header) ? [open(before(header), {}), now] : null;
      return [now, open(given.header, given.planes)];
    },
    close: () => opened.forEach((one) => one.close()),
  };
}
