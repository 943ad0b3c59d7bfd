"""The two texts of an inspection, as a model sees them: pieces, where each lies in the text, and the word it is part of.

Begin and end are pieces without a place in the text. Each is a word of its own, so that pieces can always be merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from manyheads.text.tokenizer import BEGIN, END, Tokenizer

__all__ = ["Piece", "Side", "Word", "number_words", "read_side"]

NAMES = {BEGIN: "⟨begin⟩", END: "⟨end⟩"}


@dataclass(frozen=True)
class Piece:
    """`start` and `end` count characters of the text; `word` counts the words of the side."""

    text: str
    id: int
    start: int
    end: int
    word: int


@dataclass(frozen=True)
class Word:
    """`special` is a begin or an end; a stretch of blanks between words is a word here, too."""

    text: str
    start: int
    end: int
    special: bool = False


@dataclass(frozen=True)
class Side:
    text: str
    pieces: list[Piece]
    words: list[Word]


def read_side(tokenizer: Tokenizer, ids: Sequence[int]) -> Side:
    """The text that ids spell, begin and end among them, and what each of them stands for."""
    text, places = tokenizer.decode(ids), locate(tokenizer, ids)
    words = number_words(tokenizer, ids)
    shown = tokenizer.pieces(ids)
    pieces = [
        Piece(NAMES.get(i, piece), i, *place, word)
        for i, piece, place, word in zip(ids, shown, places, words, strict=True)
    ]
    return Side(text, pieces, [join(text, list(group)) for _, group in groupby(pieces, key=lambda piece: piece.word)])


def locate(tokenizer: Tokenizer, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Where in the text each piece is, without the blank in front of it. Pieces that spell one letter together share it."""
    found, before = [], ""
    for n in range(len(ids)):
        after = tokenizer.decode(ids[: n + 1])
        start = min(shared(before, after), max(0, len(after) - (ids[n] not in NAMES)))
        added = after[start:]
        found.append((start + len(added) - len(added.lstrip(" ")) if added.strip(" ") else start, len(after)))
        before = after
    return found


def shared(before: str, after: str) -> int:
    """Letters that both begin with."""
    return next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )


def number_words(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """The word of each piece, counted from 0: what a tokenizer calls a word, a special, or blanks between."""
    units = tokenizer.units(ids)
    keys = [(i if i in NAMES else None, unit) for i, unit in zip(ids, units, strict=True)]
    return [number for number, (_, group) in enumerate(groupby(keys)) for _ in group]


def join(text: str, pieces: list[Piece]) -> Word:
    start, end = min(piece.start for piece in pieces), max(piece.end for piece in pieces)
    special = pieces[0].id in NAMES
    return Word(pieces[0].text if special else text[start:end], start, end, special)
