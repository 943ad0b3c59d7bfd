// Creates elements. Content from texts and models enters the page only as text nodes and as values of attributes that
// cannot execute: nothing is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null));
}

// Makes one element of a group the stop of the Tab key; arrow keys move within the group.
export function rove(elements, chosen) {
  elements.forEach((element, n) => element.setAttribute("tabindex", n === chosen ? 0 : -1));
}

// Replaces controls and keeps the focus on the control that had it.
export function replaceControls(element, ...children) {
  const used = element.contains(active(element)) ? active(element).closest("[aria-label]") : null;
  replace(element, ...children);
  if (!used) return;
  const same = [...element.querySelectorAll("[aria-label]")].find((it) => it.ariaLabel === used.ariaLabel);
  const next = same && (same.querySelector("input:checked") || same.querySelector("input"));
  if (next) next.focus();
}

// The accessible name of an element.
export function nameOf(element) {
  return element && (element.getAttribute("aria-label") || element.textContent);
}

// Focuses the element with this name after a redraw.
export function focusNamed(element, name) {
  const same = [...element.querySelectorAll("button, [tabindex]")].find((it) => nameOf(it) === name);
  const next = same || element.querySelector(".panel [tabindex='0']");
  if (next) next.focus();
}

// Scrolls a wide frame so far that an element in it is visible, with some room around it.
export function intoSight(frame, element, room) {
  const [from, to] = [element.offsetLeft - room, element.offsetLeft + element.offsetWidth + room];
  if (from < frame.scrollLeft) frame.scrollLeft = from;
  else if (to > frame.scrollLeft + frame.clientWidth) frame.scrollLeft = to - frame.clientWidth;
}

export function active(element) {
  return element.getRootNode().activeElement;
}
