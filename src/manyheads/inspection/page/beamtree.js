// A search as a tree: a column per step, with the continuations that were considered, best on top. Only numbers and
// positions; the view and the picture draw them.

export const STATUSES = {
  kept: "kept in the beam",
  finished: "ended",
  pruned: "pruned: others scored better",
  left: "still in the beam when the search stopped",
};
export const NODE = { wide: 84, high: 38, gap: 20, between: 8 }; // pixels: of a node, and of the space around it

// The search to show: that of the answer or, if a hypothesis was chosen, the search that it comes from.
export function searchOf({ header, asking }) {
  const before = asking ? asking.trail.map((step) => step.header).reverse() : [];
  const holder = [header, ...before].find((one) => one.search);
  return holder ? { ...holder.search, best: bestOf(holder.search.nodes), former: holder !== header } : null;
}

export function bestOf(nodes) {
  const ended = nodes.some((node) => node.status === "finished") ? "finished" : "left";
  const found = [...nodes.keys()].filter((n) => nodes[n].status === ended);
  return found.reduce((best, n) => (nodes[n].score > nodes[best].score ? n : best));
}

export function pathTo(nodes, last) {
  const parent = nodes[last].parent;
  return parent === null ? [last] : [...pathTo(nodes, parent), last];
}

// Pieces start with the blank before them.
export function textOf(nodes, last) {
  return pathTo(nodes, last).map((n) => (nodes[n].id === 2 ? "" : nodes[n].text)).join("").trim();
}

export function penaltyOf(node) {
  return node.score ? node.total / node.score : 1; // both are 0 if every piece had probability 1: any penalty would do
}

// {columns: [[node numbers]], spots: number → {x, y}, width, height}. ⟨begin⟩ (spot null) stands left of column 0.
export function layoutOf(nodes, withPruned, always) {
  const shown = [...nodes.keys()].filter((n) => withPruned || nodes[n].status !== "pruned" || always.includes(n));
  const steps = 1 + Math.max(...nodes.map((node) => node.step));
  const columns = [...Array(steps).keys()].map((step) => shown.filter((n) => nodes[n].step === step));
  const [across, down] = [NODE.wide + NODE.gap, NODE.high + NODE.between];
  const spots = new Map([[null, { x: 0, y: 0 }]]);
  const place = (n, row, step) => spots.set(n, { x: (step + 1) * across, y: row * down });
  columns.forEach((column, step) => column.forEach((n, row) => place(n, row, step)));
  const rows = Math.max(...columns.map((column) => column.length));
  return { columns, spots, width: (steps + 1) * across - NODE.gap, height: rows * down - NODE.between };
}

// A branch from the right edge of a node to the left edge of its continuation.
export function branchOf(spots, node, n) {
  const [from, to] = [spots.get(node.parent), spots.get(n)];
  const [x, y, u, v] = [from.x + NODE.wide, from.y + NODE.high / 2, to.x, to.y + NODE.high / 2];
  return `M${x},${y}C${(x + u) / 2},${y} ${(x + u) / 2},${v} ${u},${v}`;
}

export function searchTable({ nodes }) {
  const header = ["node", "parent", "step", "rank", "piece", "status", "probability", "log_probability"];
  return [[...header, "length_penalty", "score", "text"], ...nodes.map((node, n) => [
    n, node.parent === null ? "" : node.parent, node.step + 1, node.rank + 1, node.text, node.status,
    Math.exp(node.log_probability).toFixed(6), Number(node.total.toFixed(6)),
    penaltyOf(node).toFixed(6), Number(node.score.toFixed(6)), textOf(nodes, n),
  ])];
}
