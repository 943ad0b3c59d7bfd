// View 4 as a picture file: every head as a small image with its number below.

import { coloursFor } from "./colour.js";
import { s } from "./dom.js";
import { visible } from "./letters.js";
import { hiddenNote } from "./linespicture.js";
import { inOrder } from "./measures.js";
import { kindsIn } from "./models.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";
import { thumbnail } from "./thumbnails.js";

const SIZE_OF_THUMB = 52;
const THUMB_PACE = [SIZE_OF_THUMB + 8, SIZE_OF_THUMB + 22];
const MARGIN = [44, 52];
const RANKED_ACROSS = 12;

export function mapPicture({ header, state }, heads, grids) {
  const places = state.order === "layers" ? inBlocks(header) : inRanks();
  const shown = inOrder(heads, state.measure, state.order);
  const spots = shown.map((one, n) => places.spot(one, n));
  const name = visible(header.model.name || "model");
  const caption = `${name}: all heads; ${state.measure}; shades: square root${hiddenNote(state)}`;
  const wide = Math.max(...spots.map(([x]) => x)) + THUMB_PACE[0] + 16;
  const high = Math.max(...spots.map(([, y]) => y)) + THUMB_PACE[1] + 40;
  const picture = sheet(Math.ceil(Math.max(wide, textWidth(caption, "11px sans-serif") + 40)), high, caption);
  const colours = coloursFor("light");
  shown.forEach((one, n) => picture.append(head(one, spots[n], grids.get(one), state, colours)));
  picture.append(...places.labels(header));
  return picture;
}

function head(one, [x, y], grid, { measure, order }, colours) {
  const value = measure in one.values ? one.values[measure].toFixed(2) : "–";
  const name = order === "layers" ? "" : `${one.kind} ${one.layer}·${one.head}: `;
  const [size, side] = [SIZE_OF_THUMB, { width: SIZE_OF_THUMB, height: SIZE_OF_THUMB }];
  const image = grid ? { href: thumbnail(grid, colours).toDataURL("image/png") } : null;
  return s("g", { transform: `translate(${x},${y})` },
    s("title", {}, `${one.kind}, layer ${one.layer}, head ${one.head}${one.off ? ", switched off" : ""}`),
    s("rect", { ...side, fill: INK.line }), // visible where weights are masked
    image ? s("image", { ...image, ...side, preserveAspectRatio: "none", "image-rendering": "pixelated" }) : null,
    s("rect", { ...side, fill: "none", stroke: INK.line }),
    one.off ? s("path", { d: `M0,0L${size},${size}M0,${size}L${size},0`, stroke: INK.soft }) : null,
    s("text", { x: size / 2, y: size + 12, "text-anchor": "middle", "font-size": 10 }, name + value));
}

function inBlocks(header) {
  const left = (kind) => MARGIN[0] + kindsIn(header).indexOf(kind) * (header.model.heads * THUMB_PACE[0] + MARGIN[0]);
  const spot = ({ kind, layer, head: n }) => [left(kind) + n * THUMB_PACE[0], MARGIN[1] + layer * THUMB_PACE[1]];
  const look = { fill: INK.soft, "font-size": 11 };
  const text = (x, y, n, anchor) => s("text", { x, y, ...look, "text-anchor": anchor }, String(n));
  const headAt = (kind, n) => text(left(kind) + n * THUMB_PACE[0] + SIZE_OF_THUMB / 2, 44, n, "middle");
  const layerAt = (kind, n) => text(left(kind) - 10, MARGIN[1] + n * THUMB_PACE[1] + 30, n, "end");
  const labels = () => kindsIn(header).flatMap((kind) => [
    s("text", { x: left(kind), y: 24, "font-size": 14 }, kind),
    ...[...Array(header.model.heads).keys()].map((n) => headAt(kind, n)),
    ...[...Array(header.model.layers[kind]).keys()].map((n) => layerAt(kind, n)),
  ]);
  return { spot, labels };
}

function inRanks() {
  const pace = THUMB_PACE[0] + 44; // room for the name
  const spot = (_, n) => [40 + (n % RANKED_ACROSS) * pace, 20 + Math.floor(n / RANKED_ACROSS) * THUMB_PACE[1]];
  return { spot, labels: () => [] };
}
