"""Where a model looks: the cross-attention of one sentence, as SVG.

Shades grow with the square root of a weight: uniform attention to 30 pieces gives each 0.03, which no eye would tell
from nothing.

H heads · T output pieces · S source pieces
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.models.transformer import Transformer
from manyheads.report.markup import shown, visible
from manyheads.text.tokenizer import BEGIN, END, Tokenizer
from manyheads.text.vocabulary import Vocabulary

__all__ = ["Attention", "draw_maps", "draw_matrix", "look"]

MOST_PIECES = 40
MOST_HEADS, MOST_LAYERS = 16, 6
MOST_READ = 256
"""Most pieces of a sentence that the model is given."""
LEVELS = 12
SMALLEST_CELL, LARGEST_CELL = 24, 44
LETTER = 7.5
LONGEST_LABEL = 14
ROOM_FOR_VALUES = 28
"""Cells of at least this many pixels have room for a number."""


@dataclass(frozen=True, eq=False)
class Attention:
    """For each layer, how much every head looked at each source piece when it wrote each output piece."""

    source: list[str]
    output: list[str]
    layers: list[Float[Tensor, "H T S"]]

    @property
    def cut(self) -> bool:
        """True if there are more pieces than are drawn."""
        return max(len(self.source), len(self.output)) > MOST_PIECES


@torch.no_grad()
def look(model: Transformer, vocabulary: Vocabulary, source: str, output: str) -> Attention:
    """Let a model read a source and write an output again, and see where it looks."""
    most = min(MOST_READ, model.config.max_length) - 1
    source_ids = vocabulary.source.encode([source])[0][:most]
    output_ids = vocabulary.target.encode([output])[0][:most]
    layers: list[Tensor] = []
    memory = model.encode(torch.tensor([[*source_ids, END]]))
    model.decode(torch.tensor([[BEGIN, *output_ids]]), memory, None, None, layers)
    return Attention(
        labels(vocabulary.source, source_ids), labels(vocabulary.target, output_ids), [weights[0] for weights in layers]
    )


def labels(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """The labels of rows or columns. A space is part of a piece, so it is shown."""
    return [visible(piece).replace(" ", "␣") for piece in tokenizer.pieces(ids)] + ["⟨end⟩"]


def shade(weight: float) -> float:
    """How dark a weight is drawn."""
    return sqrt(min(1.0, max(0.0, weight)))


# ── one large matrix ────────────────────────────────────────────────────────────────────────────────────────────────


def draw_matrix(attention: Attention, weights: Float[Tensor, "T S"]) -> str:
    """A row per output piece, a column per source piece; weights are tooltips and, if there is room, numbers."""
    rows = [row[:MOST_PIECES] for row in weights.tolist()[:MOST_PIECES]]
    columns = [short(piece) for piece in attention.source[:MOST_PIECES]]
    names = [short(piece) for piece in attention.output[:MOST_PIECES]]
    size = max(SMALLEST_CELL, min(LARGEST_CELL, 900 // max(len(columns), len(rows))))
    left, top = gutter(names), gutter(columns)
    width, height = left + size * len(columns) + 2, top + size * len(rows) + 2
    heads = [column_label(name, left + size * (n + 0.5), top - 8) for n, name in enumerate(columns)]
    sides = [row_label(name, left - 8, top + size * (n + 0.5) + 4) for n, name in enumerate(names)]
    cells = [
        cell(left + size * s, top + size * t, size, weight, f"{names[t]} ← {columns[s]}")
        for t, row in enumerate(rows)
        for s, weight in enumerate(row)
    ]
    frame = f'<rect class="frame" x="{left}" y="{top}" width="{size * len(columns)}" height="{size * len(rows)}"/>'
    return (
        f'<div class="wide"><svg class="matrix" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'aria-label="cross-attention, mean of heads">{"".join([*heads, *sides, frame, *cells])}</svg></div>'
    )


def short(piece: str) -> str:
    return piece if len(piece) <= LONGEST_LABEL else f"{piece[: LONGEST_LABEL - 1]}…"


def gutter(names: Sequence[str]) -> float:
    """The room that the longest name takes."""
    return 20 + LETTER * max(map(len, names), default=0)


def column_label(name: str, x: float, y: float) -> str:
    return f'<text transform="translate({x + 4:g} {y:g})rotate(-90)">{shown(name)}</text>'


def row_label(name: str, x: float, y: float) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="end">{shown(name)}</text>'


def cell(x: float, y: float, size: int, weight: float, title: str) -> str:
    dark = shade(weight)
    number = f"{weight:.2f}".removeprefix("0") if size >= ROOM_FOR_VALUES and weight >= 0.05 else ""
    value = (
        f'<text class="value{" on" if dark > 0.6 else ""}" x="{x + size / 2:g}" y="{y + size / 2 + 4:g}" '
        f'text-anchor="middle">{number}</text>'
    )
    return (
        f'<g><rect x="{x:g}" y="{y:g}" width="{size}" height="{size}" fill-opacity="{dark:.2f}"/>'
        f"{value if number else ''}<title>{shown(title)} {weight:.3f}</title></g>"
    )


# ── many small maps ─────────────────────────────────────────────────────────────────────────────────────────────────


def draw_maps(attention: Attention) -> str:
    """Every head of every layer, a row for each layer."""
    first = max(0, len(attention.layers) - MOST_LAYERS)
    heads = min(MOST_HEADS, max((len(layer) for layer in attention.layers), default=0))
    width, height = map_size(attention, heads)
    rows = [f"<span></span>{''.join(f'<span>head {n}</span>' for n in range(heads))}"]
    for number, layer in enumerate(attention.layers[first:], first):
        maps = (small_map(weights, f"cross {number}.{n}", width, height) for n, weights in enumerate(layer))
        rows.append(f'<span class="layer">layer {number}</span>{"".join(list(maps)[:heads])}')
    columns = f"grid-template-columns: auto repeat({heads}, auto)"
    return f'<div class="wide"><div class="maps" style="{columns}">{"".join(rows)}</div></div>'


def map_size(attention: Attention, heads: int) -> tuple[int, int]:
    """The (width, height) of a small map in pixels: cells are square, and all heads of a layer fit side by side."""
    columns, rows = min(MOST_PIECES, len(attention.source)), min(MOST_PIECES, len(attention.output))
    cell = min(18.0, (1_030 / max(1, heads) - 10) / columns, 240 / rows)
    return max(1, round(cell * columns)), max(1, round(cell * rows))


def small_map(weights: Float[Tensor, "T S"], title: str, width: int, height: int) -> str:
    """One head as an SVG with one path per shade: a map of 40 × 40 is a few kilobytes."""
    rows = [row[:MOST_PIECES] for row in weights.tolist()[:MOST_PIECES]]
    strokes: dict[int, list[str]] = {}
    for t, row in enumerate(rows):
        for level, start, length in runs([round(LEVELS * shade(weight)) for weight in row]):
            strokes.setdefault(level, []).append(f"M{start} {t}h{length}")
    paths = (f'<path stroke-opacity="{n / LEVELS:.2f}" d="{"".join(d)}"/>' for n, d in sorted(strokes.items()) if n)
    return (
        f'<svg viewBox="0 -.5 {len(rows[0])} {len(rows)}" width="{width}" height="{height}" preserveAspectRatio="none" '
        f'shape-rendering="crispEdges" role="img" aria-label="{title}"><title>{title}</title>{"".join(paths)}</svg>'
    )


def runs(levels: list[int]) -> list[tuple[int, int, int]]:
    """(level, start, length) of each run of equal neighbours."""
    starts = [n for n, level in enumerate(levels) if n == 0 or level != levels[n - 1]]
    return [(levels[a], a, b - a) for a, b in zip(starts, [*starts[1:], len(levels)], strict=True)]
