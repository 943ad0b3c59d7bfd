// A replay as a table: for every moment, scores, the log-probability of the reference, and the measures and weights of
// the chosen head.

import { stepName, totalAt, TRACKS } from "./moments.js";
import { metricName } from "./replaycharts.js";
import { rowOf } from "./weights.js";

export function replayTable({ header }, { grids, numbers, place, masked, labels }) {
  const { replay } = header;
  const metrics = [...new Set(replay.metrics.flatMap((one) => Object.keys(one)))];
  const tracks = TRACKS.filter((track) => !Number.isNaN(numbers(0, place, track)));
  const cells = labels.rows.flatMap((_, row) => labels.columns.map((__, column) => [row, column]))
    .filter(([row, column]) => !masked(row, column));
  const names = cells.map(([row, column]) => `${labels.rows[row]} → ${labels.columns[column]}`);
  const line = (step, n) => [
    step, ...metrics.map((name) => (name in replay.metrics[n] ? replay.metrics[n][name].toFixed(6) : "")),
    totalAt(replay, n).toFixed(6), ...tracks.map((track) => numbers(n, place, track).toFixed(6)),
    ...cells.map(([row, column]) => rowOf(grids[n], row)[column].toFixed(6)),
  ];
  return [["step", ...metrics.map(metricName), "log-probability", ...tracks, ...names], ...replay.steps.map(line)];
}

export function noteOnReplay({ chosen, left_out: leftOut, lost }) {
  const best = chosen === null ? "" : `A dotted line marks the best validation, step ${stepName(chosen)}.`;
  return [
    "At every step, the model is made to write the reference, so a row always means the same.",
    "Weights have 16 bits; measures of heads refer to pieces and include begin and end.",
    best,
    "The other views show the run’s model as it is used.",
    leftOut ? `Left out to limit the size of the page: ${leftOut} moments between these.` : "",
    lost ? `Left out because they are damaged or of another pair: ${lost} moments.` : "",
  ].filter(Boolean).join(" ");
}
