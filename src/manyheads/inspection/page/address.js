// The address of the page holds the question and the selection, so that a link reproduces the same view.

import { MOST_TOLD, UNTOLD } from "./telling.js";

const LONGEST_TEXT = 2000; // characters: longer texts make links that other programs cut off
const SAID_LENGTH = /^(\d{1,4}|\d{1,3}\.\d{0,15}|\.\d{1,15})$/; // a count of pieces, or a ratio with a decimal point
const PINS = ["s", "t", "o", "b"]; // pins are positions in one text and mean nothing in another

// {read, write, listen, close} for the page's own address. Steps can be undone with the back button; moving the
// selection only replaces the address.
export function pageAddress() {
  let heard = null;
  const write = (text, step) => {
    const url = `#${text}`;
    if (url === (location.hash || "#")) return;
    try {
      history[step ? "pushState" : "replaceState"](null, "", url);
    } catch {
      // A frame created from text (srcdoc) has no address to change.
    }
  };
  return {
    read: () => location.hash.slice(1),
    write,
    listen: (act) => window.addEventListener("popstate", (heard = act)),
    close: () => window.removeEventListener("popstate", heard),
  };
}

// An inspector embedded in another page keeps its address to itself.
export function ownAddress() {
  let text = "";
  return { read: () => text, write: (next) => (text = next), listen: () => {}, close: () => {} };
}

// The question to a live host comes first, then the selection. A single file has no question.
export function joined(question, selection) {
  return [question ? questionAddress(question) : "", selection].filter(Boolean).join("&");
}

// The address for another text: the same view, with nothing pinned.
export function asksFor(question, address) {
  const gone = ["text", "part", ...Object.keys(UNTOLD), ...PINS];
  return joined(question, address.split("&").filter((part) => !gone.includes(part.split("=")[0])).join("&"));
}

function questionAddress(question) {
  const { text, part } = question;
  if (!text || text.length > LONGEST_TEXT) return "";
  const told = Object.keys(UNTOLD).filter((name) => question[name]).map((name) => `${name}=${encodeURIComponent(question[name])}`);
  const more = [...told, part > 1 ? `part=${part}` : ""];
  return [`text=${encodeURIComponent(text)}`, ...more].filter(Boolean).join("&");
}

// {text, part, and the settings in `tells`}, or null. Addresses come from outside: invalid values are ignored.
export function questionIn(address, tells) {
  const given = new Map(address.split("&").map((part) => part.split("=", 2)));
  const number = (name, least, most) => {
    const value = Number(given.get(name));
    return Number.isInteger(value) && value >= least && value <= most ? value : least;
  };
  try {
    const text = decodeURIComponent(given.get("text") || "");
    if (!text || text.length > LONGEST_TEXT) return null;
    const length = SAID_LENGTH.test(given.get("length")) ? given.get("length") : "";
    const all = { beam: number("beam", 0, MOST_TOLD), iterations: number("iterations", 0, MOST_TOLD), length };
    const told = Object.fromEntries(tells.map((name) => [name, all[name]]));
    return { text, ...told, part: number("part", 1, 1e6) };
  } catch {
    return null;
  }
}
