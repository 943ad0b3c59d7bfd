// View 2, lines: source and translation as two columns of words, with attention weights as lines between them. It shows
// one attention, or all three at once with self-attention as arcs beside the columns.

import { LEFT_OUT_HEADS } from "./align.js";
import { showBars } from "./bars.js";
import { choice, layerChoice } from "./controls.js";
import { active, h, replace, replaceControls, rove, s } from "./dom.js";
import { headToggles } from "./headtoggles.js";
import { hueOf, inkFor } from "./hues.js";
import { direction, spelt, visible } from "./letters.js";
import { linesPicture } from "./linespicture.js";
import { countOf, headsOn, layerOf, linesOf, sceneOf } from "./linesscene.js";
import { opacityOf, shapeOf } from "./linesshape.js";
import { isLone, kindsIn, nameOfSide, roleOfKind } from "./models.js";
import { exact } from "./numbers.js";
import { MOSTS } from "./selection.js";
import { headName } from "./weights.js";

const MOST_LISTED = 6;
const APART = 6; // pixels between a word and its lines
const NUMBER = 54; // pixels for a number beside a word, if that leaves enough room for arcs
const ACROSS_THE_PICTURE = ["encoder", "cross", "decoder"];
const READ_AS = "A line is thin at the word that attends and wide at the word it attends to. ";
const STEP = "A word of the translation attends while it is being written.";
const NEXT = "A word attends, while it is being written, to the words before it.";

export function linesView(shared) {
  const controls = h("div", { class: "controls" });
  const slider = h("input", {
    type: "range", min: 0, max: MOSTS.length - 1, step: 1, "aria-label": "Maximum number of lines",
    input: () => shared.choose({ most: MOSTS[slider.value] }),
  });
  const counted = h("span", { class: "counted" });
  const threads = s("svg", { class: "threads", "aria-hidden": "true" });
  const piles = ["left", "right"].map((at) => h("div", { class: `pile ${at}`, role: "group" }));
  const captions = ["left", "middle", "right"].map((at) => h("p", { class: `caption ${at}` }));
  const loom = h("div", { class: "loom" }, captions, piles, threads);
  const roles = h("div", { class: "roles" });
  const weave = h("div", { class: "weave" }, loom, roles);
  const note = h("p", { class: "note" });
  const element = h("div", { class: "lines" },
    controls,
    h("div", { class: "scale" }, h("label", {}, h("span", { class: "name" }, "Lines"), slider), counted),
    weave, note);
  let scene = null;
  let shown = null; // {lines, count, share}
  let pointed = null; // the word under the mouse or with focus: {column, n}
  let run = 0;

  const textOf = ({ column, n }) => visible(scene.columns[column].units[n].text);
  const buttonOf = ({ column, n }) => piles[column].children[n];
  const lit = () => scene && (pinnedWord(scene, shared.state) || pointed);

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async function update() {
    const mine = (run += 1);
    const found = await sceneOf(shared);
    if (mine !== run) return;
    scene = found;
    slider.value = MOSTS.indexOf(shared.state.most);
    slider.setAttribute("aria-valuetext", String(shared.state.most));
    replaceControls(controls, choosersOf(shared));
    element.classList.toggle("missing", !scene);
    const written = shared.state.three || shared.state.kind !== "encoder";
    note.textContent = scene ? READ_AS + (written ? (isLone(shared.header) ? NEXT : STEP) : "") : LEFT_OUT_HEADS;
    if (!scene) return;
    loom.classList.toggle("three", shared.state.three);
    weave.dataset.length = lengthOf(scene);
    captionsOf(shared.state).forEach((text, n) => (captions[n].textContent = text));
    [0, 1].forEach(showColumn);
    if (pointed && !scene.columns[pointed.column].units[pointed.n]) pointed = null; // there are fewer words than pieces
    shine();
  }

  function showColumn(column) {
    const had = piles[column].contains(active(element)) && pointed;
    const { side, units } = scene.columns[column];
    const dir = direction(shared.header[side].text);
    const words = units.map((unit, n) =>
      h("button", {
        type: "button", class: unit.special ? "word special" : "word",
        pointerenter: () => point({ column, n }), pointerleave: () => point(null), focus: () => point({ column, n }),
        blur: (event) => loom.contains(event.relatedTarget) || point(null), click: () => pin({ column, n }),
      }, h("span", { class: "share" }), h("span", { class: "leader" }),
        h("bdi", { class: "label", dir }, spelt(unit.text, !shared.state.words))));
    replace(piles[column], words);
    piles[column].setAttribute("aria-label", nameOfSide(shared.header, side));
    const chosen = pinnedWord(scene, shared.state);
    rove(words, chosen && chosen.column === column ? chosen.n : 0);
    if (had && words[had.n]) words[had.n].focus();
  }

  function drawThreads() {
    const whole = loom.getBoundingClientRect();
    const boxes = piles.map((pile) => [...pile.children].map((word) => word.getBoundingClientRect()));
    const edges = piles.map((pile) => pile.getBoundingClientRect());
    const tall = Math.max(...edges.map((box) => box.height), 1);
    const outside = [whole.left - edges[0].left, whole.right - edges[1].right];
    const away = lit() && outside[1] > 2 * NUMBER ? NUMBER : APART;
    const rooms = outside.map((room) => 0.97 * (room - Math.sign(room) * away));
    const place = ({ column, n }, outer) => {
      const [box, edge] = [boxes[column][n], edges[column]];
      const x = (column === 0) === outer ? edge.left - (outer ? away : APART) : edge.right + (outer ? away : APART);
      return [x - whole.left, (box.top + box.bottom) / 2 - whole.top];
    };
    const paths = [...shown.lines].reverse().map((one) => {
      const { from, to, weight, set } = one;
      const arc = from.column === to.column;
      const d = shapeOf(place(from, arc), place(to, arc), weight, arc ? rooms[from.column] : 0, tall);
      return s("path", { d, opacity: opacityOf(weight).toFixed(3), ...inkFor(set.head, shared.colours.theme) });
    });
    replace(threads, paths);
  }

  // ── highlighting ──────────────────────────────────────────────────────────────────────────────────────────────────

  function point(word) {
    pointed = word;
    if (scene && !pinnedWord(scene, shared.state)) shine();
  }

  // A second click on the pinned word unpins it.
  function pin(word) {
    const now = pinnedWord(scene, shared.state);
    const same = now && now.column === word.column && now.n === word.n;
    const { name, units } = scene.columns[word.column];
    shared.choose({ source: null, target: null, other: null, [name]: same ? null : units[word.n].pieces[0] });
  }

  function shine() {
    const word = lit();
    shown = linesOf(scene, shared.state.most, word);
    loom.classList.toggle("lit", Boolean(word));
    const numbers = word ? numbersBeside(shown.lines, word) : new Map();
    piles.forEach((pile, column) => [...pile.children].forEach((button, n) => {
      const itself = Boolean(word) && word.column === column && word.n === n;
      const one = numbers.get(`${column} ${n}`);
      button.classList.toggle("itself", itself);
      button.classList.toggle("partner", Boolean(one) && one.weight >= 0.005);
      button.setAttribute("aria-pressed", itself && Boolean(pinnedWord(scene, shared.state)));
      button.firstChild.textContent = one && one.weight >= 0.005 ? exact(one.weight) : "";
      button.style.setProperty("--hue", one ? hueOf(one.set.head, shared.colours.theme) : "inherit");
    }));
    drawThreads();
    tellCount(word);
    tellRoles(word);
  }

  function tellCount(word) {
    const { lines, count, share } = shown;
    const whose = word ? `‘${textOf(word)}’: ` : "";
    const none = headsOn(shared).length ? "" : "no head selected; ";
    counted.textContent = `${whose}${none}${countOf(lines.length, count, share)}`;
  }

  // A list for each direction and kind of attention of the highlighted word; without one, a list per kind.
  function tellRoles(word) {
    const there = word ? doings(shown.lines, word) : kindsOf(shown.lines);
    replace(roles, there.map((group) => roleOf(group, word)));
    if (!word) return;
    const spoken = there.filter(({ lines }) => lines.length).map(({ does, kind, lines }) => {
      const { set, weight } = lines[0];
      const other = does === "attends to" ? lines[0].to : lines[0].from;
      return `${does} ‘${textOf(other)}’ ${exact(weight)} (${kind} ${headName(set.layer, set.head)})`;
    });
    shared.say(`‘${textOf(word)}’ ${spoken.join("; ") || "has no lines"}`);
  }

  function roleOf({ kind, does, lines }, word) {
    const list = h("ol", { class: "bars" });
    const first = lines.slice(0, MOST_LISTED);
    const several = headsOn(shared).length > 1;
    const texts = first.map(({ from, to, set }) => {
      const pair = does ? textOf(does === "attends to" ? to : from) : `${textOf(from)} → ${textOf(to)}`;
      return { text: several ? `${pair} · ${set.head === null ? "mean" : set.head}` : pair };
    });
    const more = lines.length - first.length;
    showBars(list, texts, first.map((one, n) => [n, one.weight]), false, more > 0 ? `${more} more lines` : null);
    first.forEach((one, n) => list.children[n].style.setProperty("--heat", hueOf(one.set.head, shared.colours.theme)));
    const title = does ? [h("bdi", {}, `‘${textOf(word)}’`), ` ${does}`] : [`Heaviest weights: ${kind}`];
    const where = does ? `${kind}, layer ${layerOf(shared.state, kind)}` : roleOfKind(shared.header, kind);
    return h("section", {}, h("p", { class: "lead" }, title, h("small", {}, where)), list);
  }

  // ── keys, files ───────────────────────────────────────────────────────────────────────────────────────────────────

  loom.addEventListener("keydown", (event) => {
    const from = pointed || lit();
    const to = from && beside(scene, from, event.key);
    if (!to) return;
    event.preventDefault();
    const held = pinnedWord(scene, shared.state);
    buttonOf(to).focus();
    if (held) pin(to);
  });

  return {
    element,
    update,
    resize: () => scene && shown && drawThreads(),
    repaint: () => scene && update(),
    table: () => linesTable(scene, shown),
    picture: () => linesPicture(shared, scene, shown.lines, captionsOf(shared.state), counted.textContent),
  };
}

function lengthOf(scene) {
  const longest = Math.max(...scene.columns.map(({ units }) => units.length));
  return longest > 24 ? "long" : longest > 12 ? "medium" : "short";
}

// The pinned word; a query takes precedence over a key.
function pinnedWord(scene, state) {
  for (const column of [1, 0]) {
    const { name, units } = scene.columns[column];
    const n = units.findIndex((unit) => unit.pieces.includes(state[name]));
    if (n >= 0) return { column, n };
  }
  return null;
}

// The number beside each other word: how much the highlighted word attends to it, or else how much it attends to that.
function numbersBeside(lines, word) {
  const found = new Map();
  const put = (there, one) => {
    const name = `${there.column} ${there.n}`;
    if (!found.has(name)) found.set(name, one);
  };
  const is = (end) => end.column === word.column && end.n === word.n;
  lines.filter((one) => is(one.from)).forEach((one) => put(one.to, one));
  lines.filter((one) => !is(one.from)).forEach((one) => put(one.from, one));
  return found;
}

function kindsOf(lines) {
  const groups = ACROSS_THE_PICTURE.map((kind) => ({ kind, lines: lines.filter((one) => one.set.kind === kind) }));
  return groups.filter((group) => group.lines.length);
}

function doings(lines, word) {
  const looks = (one) => one.from.column === word.column && one.from.n === word.n;
  return kindsOf(lines).flatMap(({ kind, lines: own }) => {
    const both = [["attends to", own.filter(looks)], ["is attended to by", own.filter((one) => !looks(one))]];
    return both.map(([does, some]) => ({ kind, does, lines: some })).filter((group) => group.lines.length);
  });
}

function beside(scene, { column, n }, key) {
  const count = scene.columns[column].units.length;
  const along = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (along) return { column, n: (n + along + count) % count };
  const across = { ArrowLeft: 0, ArrowRight: 1 }[key];
  if (across === undefined || across === column) return null;
  const { lines } = linesOf(scene, Infinity, { column, n });
  const best = lines.find((one) => one.from.column !== one.to.column);
  return best ? (best.from.column === across ? best.from : best.to) : null;
}

function captionsOf(state) {
  const named = (kind) => `${kind}, layer ${layerOf(state, kind)}`;
  if (state.three) return [named("encoder"), named("cross"), named("decoder")];
  return ["keys", named(state.kind), "queries"];
}

function choosersOf(shared) {
  const { header, state, choose } = shared;
  const attend = (value) => {
    if (value === "three") return choose({ three: true });
    return choose({ three: false, kind: value, layer: layerOf(state, value) });
  };
  if (isLone(header)) return [layerChoice(shared), headToggles(shared)];
  const single = kindsIn(header).map((kind) => [kind, kind, roleOfKind(header, kind)]);
  const kinds = [["three", "all three", "Within each text and between them"], ...single];
  const numbers = [...Array(header.model.layers.encoder).keys()].map((n) => [n, String(n)]);
  const below = choice("Encoder layer", numbers, state.below, (layer) => choose({ below: layer }));
  return [
    choice("Attention", kinds, state.three ? "three" : state.kind, attend),
    state.three ? below : null,
    layerChoice(shared),
    headToggles(shared),
  ];
}

function linesTable(scene, shown) {
  const text = ({ column, n }) => scene.columns[column].units[n].text;
  const name = (head) => (head === null ? "mean" : head);
  const row = ({ set, from, to, weight }) =>
    [set.kind, set.layer, name(set.head), text(from), text(to), weight.toFixed(6)];
  return [["kind", "layer", "head", "query", "key", "weight"], ...shown.lines.map(row)];
}
