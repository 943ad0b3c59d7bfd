"""The texts of an inspection as a model sees them: pieces, where each lies in the text, and the word it is part of.

Begin and end are pieces without a place in the text. Each is a word of its own, so that pieces can always be merged.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from manyheads.text.backwards import Backwards
from manyheads.text.foreign import ForeignPieces
from manyheads.text.tokenizer import BEGIN, END, Tokenizer

__all__ = ["NAMES", "Piece", "Side", "Word", "name_pieces", "number_words", "read_side"]

NAMES = {BEGIN: "⟨begin⟩", END: "⟨end⟩"}
Places = Sequence[tuple[int, int]]


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
    """`special` marks begin and end. A run of blanks between words is a word here, too."""

    text: str
    start: int
    end: int
    special: bool = False


@dataclass(frozen=True)
class Side:
    text: str
    pieces: list[Piece]
    words: list[Word]


def read_side(tokenizer: Tokenizer, ids: Sequence[int], text: str | None = None, places: Places | None = None) -> Side:
    """The text that ids spell, begin and end included, with its pieces and words.

    Some tokenizers change a text before they cut it. Then the original `text` must be given, and the `places` of the
    pieces in it.
    """
    specials = specials_of(tokenizer)
    whole = tokenizer.decode(ids) if text is None else text
    pieces = [
        Piece(shown, i, *place, word)
        for i, shown, place, word in zip(
            ids,
            name_pieces(tokenizer, ids),
            locate(tokenizer, ids) if places is None else places,
            number_words(tokenizer, ids),
            strict=True,
        )
    ]
    words = [join(whole, list(group), specials.keys()) for _, group in groupby(pieces, key=lambda piece: piece.word)]
    return Side(whole, pieces, words)


def specials_of(tokenizer: Tokenizer) -> Mapping[int, str]:
    """The ids that stand around a text without being part of it, and their names."""
    if not isinstance(tokenizer, ForeignPieces):
        return NAMES
    return {i: tokenizer.stored(i) for i in (*tokenizer.begin, *tokenizer.end)}


def name_pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The name of each id on the page."""
    specials = specials_of(tokenizer)
    return [specials.get(i, text) for i, text in zip(ids, tokenizer.pieces(ids), strict=True)]


def locate(tokenizer: Tokenizer, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Where each piece lies in the text, without its leading blank. Pieces that spell a letter together share it."""
    if isinstance(tokenizer, Backwards):
        return locate(tokenizer.forwards, list(ids)[::-1])[::-1]
    found, before, specials = [], "", specials_of(tokenizer)
    for n in range(len(ids)):
        after = tokenizer.decode(ids[: n + 1])
        start = min(shared(before, after), max(0, len(after) - (ids[n] not in specials)))
        added = after[start:]
        found.append((start + len(added) - len(added.lstrip(" ")) if added.strip(" ") else start, len(after)))
        before = after
    return found


def shared(before: str, after: str) -> int:
    """The length of the common prefix."""
    return next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )


def number_words(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """The word number of each piece, from 0. A word is one of the tokenizer's, a special id, or the blanks between."""
    units, specials = tokenizer.units(ids), specials_of(tokenizer)
    keys = [(i if i in specials else None, unit) for i, unit in zip(ids, units, strict=True)]
    return [number for number, (_, group) in enumerate(groupby(keys)) for _ in group]


def join(text: str, pieces: list[Piece], specials: Collection[int]) -> Word:
    start, end = min(piece.start for piece in pieces), max(piece.end for piece in pieces)
    special = pieces[0].id in specials
    return Word(pieces[0].text if special else text[start:end], start, end, special)
