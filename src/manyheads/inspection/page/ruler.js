// Measures the width of text.

let ruler = null; // a canvas context, created when first needed

export function textWidth(text, font) {
  ruler = ruler || document.createElement("canvas").getContext("2d");
  ruler.font = font;
  return ruler.measureText(text).width;
}
