// How wide a text is.

let ruler = null; // a canvas that measures text, made when first needed

export function textWidth(text, font) {
  ruler = ruler || document.createElement("canvas").getContext("2d");
  ruler.font = font;
  return ruler.measureText(text).width;
}
