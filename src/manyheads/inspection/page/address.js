// The address: what was asked and what is looked at, so that a link leads to the same picture.

import { MOST_TOLD, UNTOLD } from "./telling.js";

const LONGEST_TEXT = 2000; // characters: what is longer makes links that break on their way
const SAID_LENGTH = /^(\d{1,4}|\d{1,3}\.\d{0,15}|\.\d{1,15})$/; // pieces, or a share with a point
const PINS = ["s", "t", "o", "b"]; // what is pinned lies in one text, and means nothing in the next

// {read, write, listen, close} of the page's own address. Steps can be undone with the back button; moves of the
// selection only change the address.
export function pageAddress() {
  let heard = null;
  const write = (text, step) => {
    const url = `#${text}`;
    if (url === (location.hash || "#")) return;
    try {
      history[step ? "pushState" : "replaceState"](null, "", url);
    } catch {
      // A frame that was given its text, not its address, has none to change.
    }
  };
  return {
    read: () => location.hash.slice(1),
    write,
    listen: (act) => window.addEventListener("popstate", (heard = act)),
    close: () => window.removeEventListener("popstate", heard),
  };
}

// An inspector that is only a part of its page keeps its address to itself.
export function ownAddress() {
  let text = "";
  return { read: () => text, write: (next) => (text = next), listen: () => {}, close: () => {} };
}

// What a live host is asked comes first, then the selection. A file is asked nothing.
export function joined(question, selection) {
  return [question ? questionAddress(question) : "", selection].filter(Boolean).join("&");
}

// The address of another text: the same view of it, with nothing pinned.
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

// {text, part} and what the model can be told, or null. An address comes from outside: what makes no sense is ignored.
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
