// A head as a small picture. If there are more weights than fit, a pixel shows the largest of its block: a mean would
// wash out the single weights that characterise a head.

import { imageOf } from "./heatmap.js";
import { gridOf } from "./weights.js";

export const ACROSS = 48; // weights across a thumbnail
const ROOT = 2; // shades grow with the square root

// The pooled grid of each head of a layer; null if the plane was left out.
export async function thumbnailGrids(shared, kind, layer) {
  const heads = [...Array(shared.header.model.heads).keys()];
  const grids = await Promise.all(heads.map((head) => gridOf(shared, kind, layer, head)));
  return grids.map((grid) => grid && pooled(grid));
}

export function thumbnail(grid, colours) {
  return imageOf(grid, colours, ROOT);
}

export function pooled(grid, most = ACROSS) {
  const [rows, columns] = [blocksOf(grid.rows, most), blocksOf(grid.columns, most)];
  if (rows.size === 1 && columns.size === 1) return grid;
  const wide = columns.units.length;
  const values = new Float64Array(rows.units.length * wide);
  grid.values.forEach((value, n) => {
    const [row, column] = [Math.floor(n / grid.columns.length), n % grid.columns.length];
    const at = Math.floor(row / rows.size) * wide + Math.floor(column / columns.size);
    values[at] = Math.max(values[at], value);
  });
  return { ...grid, rows: rows.units, columns: columns.units, values, pooled: true };
}

// Merges neighbours into one unit that covers their positions, so masked cells stay masked.
function blocksOf(units, most) {
  const size = Math.ceil(units.length / most) || 1;
  const count = Math.ceil(units.length / size);
  const block = (n) => units.slice(n * size, (n + 1) * size);
  const all = (some, what) => some.flatMap((unit) => unit[what] || []);
  const merge = (some) => ({ rows: all(some, "rows"), pieces: all(some, "pieces") });
  return { size, units: [...Array(count).keys()].map((n) => merge(block(n))) };
}
