// The colours of the page's own style, for a canvas, which knows none.

export function inkOf(element) {
  const style = getComputedStyle(element);
  const names = ["ink", "soft", "faint", "line", "card", "mark", "veil", "sans"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
