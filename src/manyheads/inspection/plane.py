"""One attention as a picture is made of it: rows that look, columns that are looked at, and how much.

Pieces are merged into words by the sum over keys and the mean over queries: so a row still adds up to 1.

T queries · S keys · U query words · V key words
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from jaxtyping import Float

from manyheads.errors import OptionError, choose
from manyheads.inspection.inspected import Inspected
from manyheads.inspection.sides import Piece, Side
from manyheads.report.markup import visible

__all__ = ["NAMES", "Plane", "choose_plane", "label", "merged"]


NAMES = {"encoder": "encoder", "decoder": "decoder, to itself", "cross": "decoder, to the source"}


@dataclass(frozen=True, eq=False)
class Plane:
    """Labels of rows of the decoder are what a row writes; `read`: what it has just read, where it is then that a model looks at a word's source."""

    kind: str
    layer: int
    head: int | None
    rows: list[str]
    columns: list[str]
    weights: Float[np.ndarray, "T S"]
    read: bool = False

    @property
    def title(self) -> str:
        head = "mean of its heads" if self.head is None else f"head {self.head}"
        return f"{NAMES[self.kind]}: layer {self.layer}, {head}{', as each word is read' if self.read else ''}"


def choose_plane(
    inspection: Inspected,
    kind: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    *,
    pieces: bool = False,
) -> Plane:
    """The weights of a head, or the mean of a layer's. By default those that tell which words belong together; of a model that has one text,
    the last layer's."""
    *_, last = inspection.attention
    kind = choose("attention", last if kind is None else kind, {name: name for name in inspection.attention})
    layers = inspection.attention[kind]
    reading, read = inspection.reading, False
    if layer is None and kind == "cross" and reading is not None:
        layer = reading.layer
        if head is None:
            head, read = reading.head, bool(reading.shift)
    layer = len(layers) - 1 if layer is None else layer
    check_place(kind, layer, head, len(layers), len(layers[0]))
    weights = layers[layer].mean(0) if head is None else layers[layer][head]
    queries, keys = sides_of(inspection, kind, read)
    numbers = weights.double().cpu().numpy()
    if pieces:
        rows, columns = ([label(piece.text) for piece in side] for side in (queries, keys))
        return Plane(kind, layer, head, rows, columns, numbers, read)
    rows, columns = (words_of(*side) for side in zip(holders(inspection, kind), (queries, keys), strict=True))
    return Plane(kind, layer, head, rows, columns, merged(numbers, numbered(queries), numbered(keys)), read)


def check_place(kind: str, layer: int, head: int | None, layers: int, heads: int) -> None:
    if not 0 <= layer < layers:
        raise OptionError(f"the {kind} attention has layers 0 to {layers - 1}, got layer {layer}")
    if head is not None and not 0 <= head < heads:
        raise OptionError(f"a layer has heads 0 to {heads - 1}, got head {head}")


def sides_of(inspection: Inspected, kind: str, read: bool = False) -> tuple[list[Piece], list[Piece]]:
    """The pieces of the queries, as they are written or `read`, and those of the keys."""
    return inspection.looking(kind, read)[1], inspection.looked_at(kind)[1]


def holders(inspection: Inspected, kind: str) -> tuple[Side, Side]:
    """The sides of the queries and of the keys."""
    return inspection.looking(kind)[0], inspection.looked_at(kind)[0]


def words_of(side: Side, pieces: Sequence[Piece]) -> list[str]:
    return [label(side.words[word].text) for word, _ in groupby(piece.word for piece in pieces)]


def numbered(pieces: Sequence[Piece]) -> list[int]:
    """The word of each piece, counted from the first that is there."""
    return [piece.word - pieces[0].word for piece in pieces]


def label(text: str) -> str:
    return visible(text).replace(" ", "␣")


def merged(
    weights: Float[np.ndarray, "T S"], query_words: Sequence[int], key_words: Sequence[int]
) -> Float[np.ndarray, "U V"]:
    """From pieces to words, each piece's given by its number."""
    queries, keys = (np.eye(max(words) + 1)[list(words)] for words in (query_words, key_words))
    return (queries / queries.sum(0)).T @ weights @ keys
