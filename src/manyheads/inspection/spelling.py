"""Every stage from the typed text to the ids that a model reads, and from the ids that it writes to text.

Line ends become blanks, and a long text is read in parts; nothing else is normalised. What a tokenizer cuts comes back
as the same bytes. (A foreign tokenizer may normalise: its pieces are shown with the text that they come from.)
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
    """For each side that spells a text: what was typed, where the side starts in it, and the bytes of its pieces.

    For JSON.
    """
    tokenizers, typed = inspection.tokenizers, inspection.typed
    first, *others = tokenizers.values()
    told = {name: read_one(tokenizers[name], inspection.sides[name], typed[name]) for name in inspection.spelt}
    return {"joint": bool(others) and all(other is first for other in others), **told}


def read_one(tokenizer: Tokenizer, side: Side, typed: str | None) -> dict[str, Any]:
    """How one side is spelt. `typed` is None if the model wrote the text.

    `start` is where the side's text starts in what was typed; None if that is ambiguous, because a part of a long text
    may occur twice.
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
    """The bytes of each piece; a piece of normalised text has none, and gets those of the text that it comes from."""
    if not isinstance(tokenizer, ForeignPieces):
        return bytes_of(tokenizer, [piece.id for piece in side.pieces])
    return [
        tokenizer.spelling(piece.id) if tokenizer.spells(piece.id) else side.text[piece.start : piece.end].encode()
        for piece in side.pieces
    ]


def bytes_of(tokenizer: Tokenizer, ids: list[int]) -> list[bytes]:
    """The bytes that each piece adds to the text; begin and end add none."""
    if isinstance(tokenizer, Backwards):
        return bytes_of(tokenizer.forwards, list(ids)[::-1])[::-1]
    spelling, context, found = spelling_of(tokenizer), START, []
    for i in ids:
        added, context = spelling.write([i], context) if i >= FIRST else (b"", context)
        found.append(added)
    return found
