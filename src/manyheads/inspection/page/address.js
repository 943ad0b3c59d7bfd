// The address: what was asked and what is looked at, so that a link leads to the same picture.

const LONGEST_TEXT = 2000; // characters: what is longer makes links that break on their way
const QUESTION = ["text", "beam", "part"];
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
  const gone = [...QUESTION, ...PINS];
  return joined(question, address.split("&").filter((part) => !gone.includes(part.split("=")[0])).join("&"));
}

function questionAddress({ text, beam, part }) {
  if (!text || text.length > LONGEST_TEXT) return "";
  const more = [beam ? `beam=${beam}` : "", part > 1 ? `part=${part}` : ""];
  return [`text=${encodeURIComponent(text)}`, ...more].filter(Boolean).join("&");
}

// {text, beam, part}, or null. An address comes from outside: what makes no sense is ignored.
export function questionIn(address) {
  const given = new Map(address.split("&").map((part) => part.split("=", 2)));
  const number = (name, least, most) => {
    const value = Number(given.get(name));
    return Number.isInteger(value) && value >= least && value <= most ? value : least;
  };
  try {
    const text = decodeURIComponent(given.get("text") || "");
    if (!text || text.length > LONGEST_TEXT) return null;
    return { text, beam: number("beam", 0, 64), part: number("part", 1, 1e6) };
  } catch {
    return null;
  }
}
