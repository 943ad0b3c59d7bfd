// View 16, text form: the content of the other views as tables, for screen readers.

import { linksChoice } from "./align.js";
import { debtChoice } from "./attribution.js";
import { choice, headChoice, kindChoice, layerChoice } from "./controls.js";
import { h, replace, replaceControls, s } from "./dom.js";
import { FORMS } from "./forms.js";
import { visible } from "./letters.js";
import { formsIn } from "./models.js";
import { isAtOnce } from "./rows.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";
import { formOf } from "./tableforms.js";

const MOST_DRAWN = 120; // rows in a picture
const [LINE_HIGH, COLUMN_GAP] = [20, 22];

export function tablesView(shared) {
  const controls = h("div", { class: "controls" });
  const frame = h("div", { class: "wide reading-table", tabindex: 0, role: "region", "aria-label": "Table" });
  const element = h("div", { class: "tables" }, controls, frame,
    h("p", { class: "note" }, `In a terminal, ‘manyheads inspect’ without an output file shows ${isAtOnce(shared.header) ? "this" : "an attention"} as text.`));
  let shown = { caption: "", columns: [""], rows: [] };
  let run = 0;

  async function update() {
    const mine = (run += 1);
    const found = await formOf(shared);
    if (mine !== run) return;
    shown = found;
    replaceControls(controls, controlsFor(shared));
    replace(frame, realTable(shown));
    shared.say(`${shown.caption}: ${shown.rows.length} rows`);
  }

  return {
    element,
    update,
    resize: () => {},
    repaint: () => {},
    table: () => [shown.columns, ...shown.rows.map((row) => row.map(asNumber))],
    picture: () => tablePicture(shared.header, shown),
  };
}

// Turns a text with a typographic minus sign into a number that spreadsheets understand.
function asNumber(text) {
  return /^−[\d.]+$/.test(text) ? Number(text.replace("−", "-")) : text;
}

function controlsFor(shared) {
  const { state, choose } = shared;
  const nameOfForm = (form) => (form === "iterations" && shared.header.graph ? "graph" : FORMS[form]);
  const forms = formsIn(shared.header).map((form) => [form, nameOfForm(form)]);
  const attention = [kindChoice(shared), layerChoice(shared), headChoice(shared)];
  const more = {
    alignment: () => linksChoice(shared), attention: () => attention, attribution: () => debtChoice(shared),
    heads: () => [kindChoice(shared)], replay: () => attention,
  };
  return [choice("Table", forms, state.form, (form) => choose({ form })), ...(more[state.form] || (() => []))()];
}

function realTable({ caption, columns, rows }) {
  const name = (text) => h("bdi", {}, text);
  return h("table", { class: "plain-table" },
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((text) => h("th", { scope: "col" }, name(text))))),
    h("tbody", {}, rows.map(([first, ...cells]) => h("tr", {},
      h("th", { scope: "row" }, name(first)), cells.map((text) => h("td", {}, name(text)))))));
}

function tablePicture(header, { caption, columns, rows }) {
  const drawn = [columns, ...rows.slice(0, MOST_DRAWN)];
  const widest = (n) => Math.max(...drawn.map((row) => textWidth(row[n] || "", "12px sans-serif"))) * 1.08;
  const widths = columns.map((_, n) => widest(n));
  const starts = widths.map((_, n) => 16 + widths.slice(0, n).reduce((sum, width) => sum + width + COLUMN_GAP, 0));
  const rest = rows.length - MOST_DRAWN;
  const foot = `${visible(header.model.name || "model")}: ${caption}${rest > 0 ? `; ${rest} more rows` : ""}`;
  const end = starts[starts.length - 1] + widths[widths.length - 1];
  const wide = Math.max(end + 16, textWidth(foot, "11px sans-serif") * 1.15 + 32);
  const picture = sheet(Math.ceil(wide), LINE_HIGH * drawn.length + 60, foot);
  drawn.forEach((row, line) => row.forEach((text, n) => {
    const place = { x: starts[n].toFixed(1), y: 28 + LINE_HIGH * line, "font-size": 12 };
    picture.append(s("text", { ...place, fill: line ? INK.ink : INK.soft }, text));
  }));
  return picture;
}
