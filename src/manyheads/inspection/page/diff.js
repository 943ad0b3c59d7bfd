// A word diff of two texts, by their longest common subsequence.

import { h } from "./dom.js";
import { spelt } from "./letters.js";

// Both texts, one above the other: removed words as <del>, added words as <ins>.
export function compared(before, after, [oldName, newName]) {
  const [old, fresh] = [wordsIn(before), wordsIn(after)];
  const [gone, added] = changesOf(old.map((word) => word.text), fresh.map((word) => word.text));
  const told = (name, nodes) => h("p", {}, h("span", { class: "name" }, name), " ", h("bdi", { dir: "auto" }, nodes));
  return [told(oldName, marked(before, old, gone, "del")), told(newName, marked(after, fresh, added, "ins"))];
}

// The positions of each list that are not common to both: [Set, Set].
export function changesOf(a, b) {
  const lengths = commonLengths(a, b);
  const [gone, added] = [new Set(a.keys()), new Set(b.keys())];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      gone.delete(i);
      added.delete(j);
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return [gone, added];
}

// lengths[i][j]: length of the longest common subsequence of a[i…] and b[j…].
function commonLengths(a, b) {
  const lengths = [...Array(a.length + 1)].map(() => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

function wordsIn(side) {
  return side.words.filter((word) => !word.special && word.text.trim());
}

// Positions count characters, which are not always single units of a JavaScript string.
function marked(side, words, changed, tag) {
  const letters = [...side.text];
  let end = 0;
  return words.flatMap((word, n) => {
    const gap = letters.slice(end, word.start).length ? [" "] : [];
    end = word.end;
    return [...gap, h(changed.has(n) ? tag : "span", {}, spelt(word.text))];
  });
}
