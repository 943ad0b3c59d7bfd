"""From the text that was typed to the ids that a model reads, and from the ids that it writes to text: every stage of it.

Nothing is normalised on the way: line ends become blanks, a long text is read in parts, and that is all. What a tokenizer
cuts comes back as the same bytes.
"""

from dataclasses import asdict
from typing import Any

from manyheads.decoding.spelling import START, spelling_of
from manyheads.inspection.inspected import Inspected
from manyheads.inspection.sides import Side
from manyheads.inspection.translated import as_line
from manyheads.inspection.unseen import find_marks
from manyheads.text.backwards import Backwards
from manyheads.text.foreign import ForeignPieces
from manyheads.text.tokenizer import FIRST, Tokenizer

__all__ = ["bytes_of", "read_spelling"]


def read_spelling(inspection: Inspected) -> dict[str, Any]:
    """For each side that spells a text: what was typed, where what the model has lies in it, and how its pieces are spelt. For JSON."""
    tokenizers, typed = inspection.tokenizers, inspection.typed
    first, *others = tokenizers.values()
    told = {name: read_one(tokenizers[name], inspection.sides[name], typed[name]) for name in inspection.spelt}
    return {"joint": bool(others) and all(other is first for other in others), **told}


def read_one(tokenizer: Tokenizer, side: Side, typed: str | None) -> dict[str, Any]:
    """`typed` is None where a model has written the text; `start` is where the side's text begins in it, if that is plain.

    (A part of a long text may be there twice.)
    """
    line = "" if typed is None else as_line(typed)
    start = line.index(side.text) if side.text and line.count(side.text) == 1 else None
    return {
        "typed": typed,
        "start": start,
        "tokenizer": tokenizer.model if isinstance(tokenizer, ForeignPieces) else tokenizer.kind,
        "size": tokenizer.size,
        "bytes": [one.hex(" ") for one in bytes_in(tokenizer, side)],
        "marks": [asdict(mark) for mark in find_marks(side.text)],
        "typed_marks": [] if typed is None else [asdict(mark) for mark in find_marks(typed)],
    }


def bytes_in(tokenizer: Tokenizer, side: Side) -> list[bytes]:
    """What each piece stands for. Pieces of normalised text spell nothing by themselves: for them it is the stretch that they come from."""
    if not isinstance(tokenizer, ForeignPieces):
        return bytes_of(tokenizer, [piece.id for piece in side.pieces])
    return [
        tokenizer.spelling(piece.id) if tokenizer.spells(piece.id) else side.text[piece.start : piece.end].encode()
        for piece in side.pieces
    ]


def bytes_of(tokenizer: Tokenizer, ids: list[int]) -> list[bytes]:
    """What each piece adds to the text; begin and end add nothing."""
    if isinstance(tokenizer, Backwards):
        return bytes_of(tokenizer.forwards, list(ids)[::-1])[::-1]
    spelling, context, found = spelling_of(tokenizer), START, []
    for i in ids:
        added, context = spelling.write([i], context) if i >= FIRST else (b"", context)
        found.append(added)
    return found
