// View 6 as a picture file: the same tree, drawn as SVG.

import { branchOf, NODE, layoutOf, pathTo } from "./beamtree.js";
import { s } from "./dom.js";
import { shortened, visible } from "./letters.js";
import { hundredths } from "./numbers.js";
import { textWidth } from "./ruler.js";
import { INK, sheet } from "./saving.js";

const CHOSEN = "#c8553d";

export function beamPicture({ header, state }, search, chosen) {
  const { nodes, best } = search;
  const path = pathTo(nodes, chosen);
  const layout = layoutOf(nodes, state.pruned, [...path, ...pathTo(nodes, best)]);
  const what = `beam of ${search.beam}; numbers are scores; ■: ended; grey: pruned; red: selected hypothesis`;
  const caption = `${visible(header.model.name || "model")}: ${what}`;
  const wide = Math.max(layout.width, textWidth(caption, "11px sans-serif") * 1.15) + 40;
  const picture = sheet(Math.ceil(wide), layout.height + 76, caption);
  const tree = s("g", { transform: "translate(16,20)" });
  for (const column of layout.columns) {
    for (const n of column) tree.append(drawnBranch(nodes[n], layout.spots, n, path.includes(n)));
  }
  const begin = { x: NODE.wide - 8, y: NODE.high / 2, dy: "0.35em", "text-anchor": "end", fill: INK.soft };
  tree.append(s("text", begin, "⟨begin⟩"));
  for (const column of layout.columns) {
    for (const n of column) tree.append(nodeCell(nodes[n], layout.spots.get(n), path.includes(n)));
  }
  picture.append(tree);
  return picture;
}

function drawnBranch(node, spots, n, chosen) {
  const width = (0.8 + 3 * Math.exp(node.log_probability)).toFixed(2);
  const stroke = chosen ? CHOSEN : node.status === "pruned" ? INK.line : INK.heat;
  const look = { fill: "none", "stroke-width": width, stroke };
  return s("path", { d: branchOf(spots, node, n), ...look, opacity: chosen ? 0.9 : 0.55 });
}

function nodeCell(node, { x, y }, chosen) {
  const pruned = node.status === "pruned";
  const stroke = chosen ? CHOSEN : pruned ? INK.line : INK.soft;
  const frame = { width: NODE.wide, height: NODE.high, rx: 5, fill: INK.paper, stroke };
  const text = `${node.status === "finished" ? "■ " : ""}${shortened(visible(node.text), 10)}`;
  return s("g", { transform: `translate(${x},${y})` },
    s("rect", frame, s("title", {}, `${visible(node.text)}: ${node.status}`)),
    s("text", { x: 8, y: 16, "font-size": 13, fill: pruned ? INK.soft : INK.ink }, text),
    s("text", { x: 8, y: 31, "font-size": 10, fill: INK.soft }, hundredths(node.score)));
}
