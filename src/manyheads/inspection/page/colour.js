// Colours. Weights: one ramp whose lightness falls evenly from the paper, so that 0 is blank and equal steps look
// equal, also to colour-blind eyes. Signed numbers: blue above 0, orange below. Both are computed in OKLCH, for light
// and dark themes.

import { clamp } from "./numbers.js";

const STEPS_OF_RAMP = 256;
const RAMPS = {
  light: { from: [0.995, 0], to: [0.31, 0.09], most: 0.105, hue: [228, 264] },
  dark: { from: [0.235, 0], to: [0.95, 0.035], most: 0.1, hue: [262, 215] },
};
const SIGNED = {
  light: { middle: 0.985, end: 0.48, chroma: 0.14 },
  dark: { middle: 0.26, end: 0.82, chroma: 0.13 },
};
const ABOVE = 245;
const BELOW = 45;

// Converts OKLCH to three bytes of sRGB.
function bytes([lightness, chroma, hue]) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const n = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * n,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * n,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * n,
  ];
  return linear.map((x) => Math.round(255 * clamp(x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055, 0, 1)));
}

function between(from, to, share) {
  return from + (to - from) * share;
}

function ramp({ from, to, most, hue }) {
  return [...Array(STEPS_OF_RAMP).keys()].map((n) => {
    const share = n / (STEPS_OF_RAMP - 1);
    const rise = Math.min(1, share / 0.4);
    const chroma = share < 0.4 ? between(from[1], most, rise) : between(most, to[1], (share - 0.4) / 0.6);
    return bytes([between(from[0], to[0], share), chroma, between(hue[0], hue[1], share)]);
  });
}

function signedRamp({ middle, end, chroma }) {
  const arm = (hue, share) => bytes([between(middle, end, share), chroma * share, hue]);
  return [...Array(STEPS_OF_RAMP).keys()].map((n) => {
    const value = (2 * n) / (STEPS_OF_RAMP - 1) - 1;
    return arm(value < 0 ? BELOW : ABOVE, Math.abs(value));
  });
}

// weight(share) and signed(value) give bytes; onWeight and onSigned give a text colour that is readable on them.
export function coloursFor(theme) {
  const [weights, signs] = [ramp(RAMPS[theme]), signedRamp(SIGNED[theme])];
  const at = (table, share) => table[Math.round(clamp(share, 0, 1) * (STEPS_OF_RAMP - 1))];
  return {
    theme,
    weight: (share) => at(weights, share),
    signed: (value) => at(signs, (value + 1) / 2),
    onWeight: (share) => readable(at(weights, share)),
    onSigned: (value) => readable(at(signs, (value + 1) / 2)),
  };
}

function readable(rgb) {
  return luminance(rgb) < 0.2 ? "#ffffff" : "#1d1b18";
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((byte) => ((byte / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function css(rgb) {
  return `rgb(${rgb.join(" ")})`;
}

export function hex(rgb) {
  return `#${rgb.map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

// Maps a weight to its position on the ramp. Roots and logarithms lift small weights; the legend shows the effect.
export function scaleOf(power) {
  if (power === 0) return (weight) => Math.log1p(weight * 999) / Math.log(1000);
  return power === 1 ? (weight) => weight : (weight) => weight ** (1 / power);
}

// The colours of a grid: fill(value) gives bytes, on(value) the colour of text on them. In a grid with `most`, values
// are signed and ±most has full colour.
export function shadesOf({ most }, colours, power) {
  const scale = scaleOf(power);
  const share = (value) => (most ? value / most : 0);
  if (most === undefined) {
    return { fill: (value) => colours.weight(scale(value)), on: (value) => colours.onWeight(scale(value)) };
  }
  return { fill: (value) => colours.signed(share(value)), on: (value) => colours.onSigned(share(value)) };
}

export const SCALE_NAMES = { 1: "linear", 2: "square root", 3: "cube root", 0: "logarithm" };
