// The pinned cell of a heat map, and how keys move it.

import { clamp } from "./numbers.js";
import { namesOf } from "./selection.js";

// The selection that pins a cell. A second click on the pinned cell unpins it.
export function pinChange(grid, pinned, { row, column }) {
  const { query, key } = namesOf(grid.kind);
  const same = pinned && pinned.row === row && pinned.column === column;
  const first = (units, n) => (same ? null : units[n].pieces[0]);
  return { [query]: first(grid.rows, row), [key]: first(grid.columns, column) };
}

// The cell next to the pinned one; the first cell if none is pinned; null at the edge.
export function nextCell(grid, pinned, [down, right]) {
  const whole = pinned && pinned.row >= 0 && pinned.column >= 0;
  const from = pinned || { row: 0, column: 0 };
  const cell = {
    row: clamp(from.row + (whole ? down : 0), 0, grid.rows.length - 1),
    column: clamp(from.column + (whole ? right : 0), 0, grid.columns.length - 1),
  };
  return whole && cell.row === from.row && cell.column === from.column ? null : cell;
}
