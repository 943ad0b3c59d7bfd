"""One attention as a labelled matrix: a row per query, a column per key.

Pieces are merged into words by summing over keys and averaging over queries, so that a row still adds up to 1.

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


NAMES = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}


@dataclass(frozen=True, eq=False)
class Plane:
    """One plane of weights with its labels.

    Decoder rows are labelled with what they write or, if `read`, with what they have just read: some models look at
    the source of a word only then.
    """

    kind: str
    layer: int
    head: int | None
    rows: list[str]
    columns: list[str]
    weights: Float[np.ndarray, "T S"]
    read: bool = False

    @property
    def title(self) -> str:
        head = "mean of heads" if self.head is None else f"head {self.head}"
        return f"{NAMES[self.kind]}: layer {self.layer}, {head}{', as each word is read' if self.read else ''}"


def choose_plane(
    inspection: Inspected,
    kind: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    *,
    pieces: bool = False,
) -> Plane:
    """The weights of one head, or the mean of a layer's heads.

    By default these are the weights that alignments are read from or, if none are known, those of the last layer.
    """
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
    """The pieces of the queries, as written or as `read`, and those of the keys."""
    return inspection.looking(kind, read)[1], inspection.looked_at(kind)[1]


def holders(inspection: Inspected, kind: str) -> tuple[Side, Side]:
    """The sides of the queries and of the keys."""
    return inspection.looking(kind)[0], inspection.looked_at(kind)[0]


def words_of(side: Side, pieces: Sequence[Piece]) -> list[str]:
    return [label(side.words[word].text) for word, _ in groupby(piece.word for piece in pieces)]


def numbered(pieces: Sequence[Piece]) -> list[int]:
    """The word number of each piece, counted from the word of the first piece."""
    return [piece.word - pieces[0].word for piece in pieces]


def label(text: str) -> str:
    return visible(text).replace(" ", "␣")


def merged(
    weights: Float[np.ndarray, "T S"], query_words: Sequence[int], key_words: Sequence[int]
) -> Float[np.ndarray, "U V"]:
    """The weights of words, given the word number of each piece."""
    queries, keys = (np.eye(max(words) + 1)[list(words)] for words in (query_words, key_words))
    return (queries / queries.sum(0)).T @ weights @ keys
