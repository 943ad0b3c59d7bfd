"""Which word each piece is part of. Alignments link words, or characters if the pieces are characters.

A word is what stands between spaces (U+0020, no other blank). What a model writes need not be valid UTF-8, so words and
characters are counted over bytes, as they will read once decoded.
"""

from collections.abc import Iterable, Sequence

__all__ = ["Units", "character_units", "letter_words", "move_units", "word_units"]

Units = list[int | None]
"""For each piece or letter, the number of the unit it is in; None for a space between words."""

SPACE = ord(" ")


def word_units(spellings: Iterable[bytes]) -> Units:
    """The word of each piece. A piece with parts of two words counts as the first."""
    found: Units = []
    words, inside = 0, False
    for spelling in spellings:
        number = None
        for byte in spelling:
            words += byte != SPACE and not inside
            inside = byte != SPACE
            number = words - 1 if inside and number is None else number
        found.append(number)
    return found


def character_units(spellings: Iterable[bytes]) -> Units:
    """The character of each piece. Several bytes may spell one character."""
    found: Units = []
    characters, begun = 0, b""
    for spelling in spellings:
        number = None
        for byte in spelling:
            more = begun + bytes([byte])
            goes_on = begun and len(more.decode("utf-8", errors="replace")) == 1
            characters, begun = (characters, more) if goes_on else (characters + 1, more[-1:])
            number = characters - 1 if number is None else number
        found.append(number)
    return found


def letter_words(text: str) -> Units:
    """The word of each letter of a text."""
    found: Units = []
    words, before = -1, " "
    for letter in text:
        words += before == " " != letter
        found.append(None if letter == " " else words)
        before = letter
    return found


def move_units(parts: Sequence[str], whole: str, words: bool) -> list[dict[int, int]]:
    """For each part of a text, a map from the units of the part to those of the whole text.

    Parts are cut out of a line, or joined into one, with or without blanks between them; everything that is not blank
    stays in order. A unit that is only blanks has no place in the whole.
    """
    ink = (unit for letter, unit in zip(whole, letter_units(whole, words), strict=True) if not letter.isspace())
    moves: list[dict[int, int]] = []
    for part in parts:
        move: dict[int, int] = {}
        for letter, unit in zip(part, letter_units(part, words), strict=True):
            if unit is not None and not letter.isspace() and (place := next(ink, None)) is not None:
                move.setdefault(unit, place)
        moves.append(move)
    return moves


def letter_units(text: str, words: bool) -> Units:
    return letter_words(text) if words else list(range(len(text)))
