// One colour per head. They were searched for so that any two differ in hue or lightness, also to colour-blind eyes,
// and each stands out from the paper. From the ninth head on, shapes are also hollow.

const HUES = {
  light: ["#2794fb", "#ed6e12", "#028f75", "#41089c", "#6f1a11", "#643fd1", "#a63d02", "#774272",
    "#c170bb", "#542662", "#805aa5", "#c16046", "#853533", "#7a5aec", "#40469e", "#92495a"],
  dark: ["#aafcfe", "#ee9e10", "#53d0b1", "#795de7", "#dd410d", "#aa92f3", "#fde836", "#a56185",
    "#59ac85", "#c2c5fe", "#9872bf", "#f6c16b", "#56f1b0", "#e96e4d", "#c88ec3", "#907bf8"],
};
const MEAN = { light: "#1f5f8b", dark: "#7cc4ec" };
const SOLID = 8;

// `head` null is the mean of all heads.
export function hueOf(head, theme) {
  return head === null ? MEAN[theme] : HUES[theme][head % HUES[theme].length];
}

export function isHollow(head) {
  return head !== null && head % HUES.light.length >= SOLID;
}

// The colour of a head as attributes of an SVG shape.
export function inkFor(head, theme) {
  const hue = hueOf(head, theme);
  return isHollow(head) ? { fill: hue, "fill-opacity": 0.15, stroke: hue } : { fill: hue };
}
