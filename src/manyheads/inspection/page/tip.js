// The tooltip beside the mouse.

import { h, replace } from "./dom.js";
import { clamp } from "./numbers.js";

const AWAY = 16;

// The tooltip stays within `host`.
export function makeTip(host) {
  const element = h("div", { class: "tip", hidden: true });
  host.append(element);
  const show = (event, ...children) => {
    replace(element, ...children);
    element.hidden = false;
    const box = host.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    element.style.setProperty("--x", `${clamp(x + AWAY, 0, Math.max(0, box.width - element.offsetWidth))}px`);
    element.style.setProperty("--y", `${y + AWAY}px`);
  };
  return { show, hide: () => (element.hidden = true) };
}
