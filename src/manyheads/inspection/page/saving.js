// Exports the current view as a table or a picture. Pictures use light colours, for print.

import { s } from "./dom.js";

const SHARPNESS = 2; // pixels of a PNG per unit of its SVG
const FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'DejaVu Sans', sans-serif";
export const INK = { paper: "#fdfcfa", ink: "#23211e", soft: "#6f6a62", line: "#e4dfd6", heat: "#1f5f8b" };

// A spreadsheet would run a cell that starts like a formula: such cells are quoted as text.
function cell(value) {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

export function asCsv(rows) {
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}

// An empty picture with its background and caption.
export function sheet(width, height, caption) {
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return s("svg", { ...size, "font-family": FONT, "font-size": 13, fill: INK.ink },
    s("title", {}, caption),
    s("rect", { width, height, fill: INK.paper }),
    s("text", { x: 16, y: height - 14, "font-size": 11, fill: INK.soft }, caption),
  );
}

export function asSvg(picture) {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(picture)}\n`;
}

export async function asPng(picture) {
  const address = URL.createObjectURL(new Blob([asSvg(picture)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = SHARPNESS * Number(picture.getAttribute("width"));
    canvas.height = SHARPNESS * Number(picture.getAttribute("height"));
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}

export function download(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // the download reads it a little later
}

// Some frames have no access to the clipboard; there the text is selected and copied the old way.
export async function copy(text, el) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    el.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
