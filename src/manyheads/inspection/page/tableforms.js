// The other views as tables, {caption, columns, rows}: cells are strings, the first of a row is its header. Numbers
// have four decimals, as everywhere.

import { agreementOf } from "./agreement.js";
import { linksOf, sourceOfLinks } from "./align.js";
import { nameOfOver } from "./attribution.js";
import { heaviest } from "./bars.js";
import { bestOf, searchOf, textOf } from "./beamtree.js";
import { graphForm } from "./graphfacts.js";
import { FIGURES, figureNames, nameInReport, roleOf, shownFigure, sortedHeads } from "./headfigures.js";
import { iterationForm } from "./iterationfacts.js";
import { visible } from "./letters.js";
import { allHeads, MEASURES } from "./measures.js";
import { attributionGrid, attributionsOf, METHODS } from "./methods.js";
import { isLone, roleOfKind, speltSides, writes } from "./models.js";
import { headShown, openNumbers, stepName, totalAt, TRACKS } from "./moments.js";
import { exact } from "./numbers.js";
import { marksIn } from "./piecesfacts.js";
import { metricName } from "./replaycharts.js";
import { firstRow, isAtOnce } from "./rows.js";
import { namesOf } from "./selection.js";
import { gridOf, headName, maskOf, rowOf, unitWith } from "./weights.js";

const NEAREST = 3; // source words listed per word
const MOST_TABLE_CELLS = 2500; // of one attention; of larger ones, a single row is shown
const ALTERNATIVES = 4;
const LEFT_OUT_TABLE = "The weights were left out of this page to limit its size.";

const nothing = (caption) => ({ caption, columns: ["no data"], rows: [] });
const minus = (number) => exact(number).replace("-", "−");

const MAKERS_OF_TABLES = {
  iterations(shared) {
    return shared.header.graph ? graphForm(shared.header) : iterationForm(shared);
  },

  async alignment(shared) {
    const grid = await linksOf(shared);
    if (!grid) return nothing(LEFT_OUT_TABLE);
    const ranks = [...Array(Math.min(NEAREST, grid.columns.length)).keys()];
    const rows = grid.rows.map((unit, row) => {
      const found = heaviest(rowOf(grid, row), ranks.length);
      return [visible(unit.text), ...found.flatMap(([n, weight]) => [visible(grid.columns[n].text), exact(weight)])];
    });
    const columns = ["written", ...ranks.flatMap((n) => [`${["first", "second", "third"][n]} source`, "weight"])];
    return { caption: `Strongest links of each word: ${sourceOfLinks(shared)}`, columns, rows };
  },

  async attention(shared) {
    const { kind, layer, head } = shared.state;
    const grid = await gridOf(shared, kind, layer, head);
    const caption = `Attention of ${roleOfKind(shared.header, kind)}: ${headName(layer, head)}; rows are queries, columns are keys`;
    if (!grid) return nothing(LEFT_OUT_TABLE);
    if (grid.values.length > MOST_TABLE_CELLS) return oneRow(shared, grid, caption);
    const [masked, coarse] = [maskOf(grid), grid.block > 1 ? `; means of ${grid.block} × ${grid.block} weights` : ""];
    const cells = (row) => [...rowOf(grid, row)].map((weight, n) => (masked(row, n) ? "masked" : exact(weight)));
    const rows = grid.rows.map((unit, row) => [visible(unit.text), ...cells(row)]);
    return { caption: caption + coarse, columns: ["query", ...grid.columns.map((unit) => visible(unit.text))], rows };
  },

  candidates({ header }) {
    const rows = header.steps.map((step, n) => {
      const written = header.target.pieces[n + firstRow(header)];
      const others = step.candidates.filter((one) => one.id !== written.id).slice(0, ALTERNATIVES);
      const told = others.map((one) => `${visible(one.text)} ${exact(Math.exp(one.log_probability))}`);
      return [
        `${n + 1}`, visible(written.text), exact(Math.exp(step.log_probability)), `${step.rank + 1}`,
        exact(step.entropy), told.join(", "),
      ];
    });
    const [name, where] = isAtOnce(header) ? ["place", "in each place"] : ["step", "at each step"];
    const columns = [name, "written", "probability", "rank", "entropy in nats", "other candidates"];
    return { caption: `The piece written ${where}, and other candidates`, columns, rows };
  },

  hypotheses(shared) {
    const search = searchOf(shared);
    if (!search) return nothing("No search was logged.");
    const { nodes } = search;
    const ended = nodes[bestOf(nodes)].status;
    const found = [...nodes.keys()].filter((n) => nodes[n].status === ended);
    found.sort((a, b) => nodes[b].score - nodes[a].score);
    const rows = found.map((n, place) => [
      `${place + 1}`, visible(textOf(nodes, n)), minus(nodes[n].score), minus(nodes[n].total), `${nodes[n].step + 1}`,
    ]);
    const counted = `${nodes.length} continuations were considered`;
    const caption = `Hypotheses of a beam of ${search.beam}, best score first; ${counted}`;
    return { caption, columns: ["rank", "text", "score", "log-probability", "pieces"], rows };
  },

  layers({ header }) {
    const { lens, target } = header;
    const cell = (one) => {
      const [first] = one.candidates;
      return `${visible(first.text)} ${exact(Math.exp(first.log_probability))}, rank ${one.rank + 1}`;
    };
    const cells = (n) => lens.layers.map((row) => cell(row[n]));
    const rows = target.pieces.slice(firstRow(header)).map((piece, n) => [visible(piece.text), ...cells(n)]);
    const columns = ["written", ...lens.layers.map((_, n) => `layer ${n}`)];
    return { caption: "What each layer would write", columns, rows };
  },

  attribution(shared) {
    const { method, over } = shared.state;
    const found = attributionsOf(shared)[method];
    if (!found) return nothing(`This page has no ${METHODS[method]} attribution yet.`);
    const grid = attributionGrid(shared, found, over);
    const ranks = [...Array(Math.min(NEAREST, grid.columns.length)).keys()];
    const rows = grid.rows.map((unit, row) => {
      const values = rowOf(grid, row);
      const most = heaviest(values.map(Math.abs), ranks.length);
      return [visible(unit.text), ...most.flatMap(([n]) => [visible(grid.columns[n].text), minus(values[n])])];
    });
    const unit = found.signed ? "nats" : "share";
    const columns = [writes(shared.header) ? "written" : "word", ...ranks.flatMap((n) => [["first", "second", "third"][n], unit])];
    const caption = `Largest attributions of each word to ${over === "source" && !isLone(shared.header) ? "the source" : nameOfOver(shared.header, over)}`;
    return { caption: `${caption}: ${METHODS[method]}; ${agreementOf(shared, found)}`, columns, rows };
  },

  heads({ header, state }) {
    const heads = allHeads(header).filter((one) => one.kind === state.kind);
    const names = MEASURES.filter((name) => name in heads[0].values);
    const rows = heads.map((one) => [
      `${one.layer}.${one.head}${one.off ? ", off" : ""}`, ...names.map((name) => exact(one.values[name])),
    ]);
    return { caption: `Measures of the ${state.kind} heads (layer.head)`, columns: ["head", ...names], rows };
  },

  async replay(shared) {
    const { header, state } = shared;
    const { replay } = header;
    if (!replay) return nothing("This page holds no replay.");
    const numbers = await openNumbers(shared);
    const place = { ...state, head: headShown(shared, numbers) };
    const metrics = [...new Set(replay.metrics.flatMap((one) => Object.keys(one)))];
    const tracks = TRACKS.filter((track) => !Number.isNaN(numbers(0, place, track)));
    const told = (n, name) => (name in replay.metrics[n] ? exact(replay.metrics[n][name]) : "");
    const rows = replay.steps.map((step, n) => [
      stepName(step), ...metrics.map((name) => told(n, name)), minus(totalAt(replay, n)),
      replay.best[n].map((one) => visible(one.text)).join(" "),
      ...tracks.map((track) => exact(numbers(n, place, track))),
    ]);
    const columns = ["step", ...metrics.map(metricName), "log-probability", "likeliest pieces", ...tracks];
    const which = `${place.kind} ${headName(place.layer, place.head)}`;
    const caption = `Training: scores, log-probability of the reference, likeliest pieces, and measures of ${which}`;
    return { caption, columns, rows };
  },

  report({ header, state }) {
    const { report } = header;
    if (!report) return nothing("This page has no head report. ‘manyheads inspect MODEL --data DEV.tsv’ makes one.");
    const rows = sortedHeads(report.heads, state.sort, state.up).map((one) => [
      nameInReport(one), roleOf(one), ...figureNames.map((figure) => shownFigure(one, figure, true)),
      ...[one.lost.bleu_p, one.lost.chrf_p].map((p) => (p === null ? "–" : exact(p))),
    ]);
    const columns = ["head", "role", ...figureNames.map((figure) => FIGURES[figure].name), "p of BLEU", "p of chrF"];
    return { caption: `All heads over ${report.pairs} of ${report.of} pairs`, columns, rows };
  },

  pieces({ header }) {
    const rows = speltSides(header).flatMap((side) => header[side].pieces.map((piece, n) => [
      `${side} ${n + 1}`, visible(piece.text), `${piece.id}`, header.spelling[side].bytes[n],
      `${piece.start} to ${piece.end}`,
      marksIn(header.spelling[side].marks, piece).map((mark) => `${mark.code} ${mark.name}`).join(", "),
    ]));
    const columns = ["piece", "text", "id", "bytes", "characters", "invisible characters"];
    return { caption: isLone(header) ? "Pieces of the text" : "Pieces of both texts", columns, rows };
  },
};

export async function formOf(shared) {
  return MAKERS_OF_TABLES[shared.state.form](shared);
}

// The selected row of an attention that is too large for a table, heaviest weight first.
function oneRow({ state }, grid, caption) {
  const row = Math.max(0, unitWith(grid.rows, state[namesOf(grid.kind).query]));
  const masked = maskOf(grid);
  const seen = heaviest(rowOf(grid, row)).filter(([n]) => !masked(row, n));
  return {
    caption: `${caption}. Too large for a table: this is the row of ‘${visible(grid.rows[row].text)}’`,
    columns: ["key", "weight"],
    rows: seen.map(([n, weight]) => [visible(grid.columns[n].text), exact(weight)]),
  };
}
