// Recorded moments of training, as the header and planes hold them: see replay.py.

import { meaningOf, MEASURES } from "./measures.js";
import { KINDS } from "./weights.js";

const FORMED = "Share of a head’s attention that is already where it is at the last step: 1 means all of it.";
const EARLY = 1.5; // 1 would space moments evenly
export const TRACKS = ["formed", ...MEASURES]; // measures of a head that can be followed over the steps

export function meaningOfTrack(track) {
  return track === "formed" ? FORMED : meaningOf(track);
}

// The selected moment; without a step, the last.
export function momentOf({ header, state }) {
  const { steps } = header.replay;
  return state.moment === null ? steps.length - 1 : steps.indexOf(state.moment);
}

// The planes of one moment, under the names that planes of the finished model have.
export function planesAt(planes, moment) {
  return async (name) => {
    const plane = await planes(`replay/${name}`);
    if (!plane) return null;
    const shape = plane.shape.slice(1);
    const size = shape.reduce((product, count) => product * count, 1);
    return { ...plane, shape, data: plane.data.subarray(moment * size, (moment + 1) * size) };
  };
}

// value(moment, {kind, layer, head}, track) for every head at every moment; NaN if a kind has no such measure.
export async function openNumbers({ header, planes }) {
  const found = await Promise.all(KINDS.map((kind) => planes(`replay/numbers/${kind}`)));
  const { measures } = header.replay;
  return (moment, { kind, layer, head }, track) => {
    const { data, shape } = found[KINDS.indexOf(kind)];
    const at = measures[kind].indexOf(track);
    return at < 0 ? NaN : data[((moment * shape[1] + layer) * shape[2] + at) * shape[3] + head];
  };
}

// The chosen head, or the head of the layer with the most focused attention at the last step.
export function headShown({ header, state }, numbers) {
  if (state.head !== null) return state.head;
  const last = header.replay.steps.length - 1;
  const heads = [...Array(header.model.heads).keys()];
  const sharpness = heads.map((head) => numbers(last, { ...state, head }, "focus"));
  return sharpness.indexOf(Math.max(...sharpness));
}

// The log-probability of the complete reference.
export function totalAt({ log_probability: logs }, moment) {
  return logs[moment].reduce((sum, value) => sum + value, 0);
}

export function stepName(step) {
  return step.toLocaleString("en-US");
}

// At most `most` indices of a list, including the first and the last, denser at the start, where heads form.
export function spread(count, most) {
  if (count <= most) return [...Array(count).keys()];
  return [...new Set([...Array(most).keys()].map((n) => Math.round((count - 1) * (n / (most - 1)) ** EARLY)))];
}
