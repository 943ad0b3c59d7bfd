"""From the text that was typed to the ids that a model reads, and from the ids that it writes to text: every stage of it.

Nothing is normalised on the way: line ends become blanks, a long text is read in parts, and that is all. What a tokenizer
cuts comes back as the same bytes.
"""

from dataclasses import asdict
from typing import Any

from manyheads.decoding.spelling import START, spelling_of
from manyheads.inspection.api import Inspection, as_line
from manyheads.inspection.sides import Side
from manyheads.inspection.unseen import find_marks
from manyheads.text.tokenizer import FIRST, Tokenizer

__all__ = ["bytes_of", "read_spelling"]


def read_spelling(inspection: Inspection) -> dict[str, Any]:
    """For each side: what was typed, where what the model has lies in it, and how its pieces are spelt. For JSON."""
    vocabulary = inspection.translator.vocabulary
    return {
        "joint": vocabulary.joint,
        "source": read_one(vocabulary.source, inspection.source, inspection.typed[0]),
        "target": read_one(vocabulary.target, inspection.target, inspection.typed[1]),
    }


def read_one(tokenizer: Tokenizer, side: Side, typed: str | None) -> dict[str, Any]:
    """`typed` is None where a model has written the text; `start` is where the side's text begins in it, if that is plain.

    (A part of a long text may be there twice.)
    """
    line = "" if typed is None else as_line(typed)
    start = line.index(side.text) if side.text and line.count(side.text) == 1 else None
    return {
        "typed": typed,
        "start": start,
        "tokenizer": tokenizer.kind,
        "size": tokenizer.size,
        "bytes": [one.hex(" ") for one in bytes_of(tokenizer, [piece.id for piece in side.pieces])],
        "marks": [asdict(mark) for mark in find_marks(side.text)],
        "typed_marks": [] if typed is None else [asdict(mark) for mark in find_marks(typed)],
    }


def bytes_of(tokenizer: Tokenizer, ids: list[int]) -> list[bytes]:
    """What each piece adds to the text; begin and end add nothing."""
    spelling, context, found = spelling_of(tokenizer), START, []
    for i in ids:
        added, context = spelling.write([i], context) if i >= FIRST else (b"", context)
        found.append(added)
    return found
