"""Characters that are invisible, or that change the order of others: their names and positions.

Two texts may look the same and differ: in a no-break space, an override that reverses a line, a joiner. Models read
these as pieces like any other. Here each is named.
"""

import unicodedata
from dataclasses import dataclass

__all__ = ["Mark", "find_marks"]

TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
DIRECTIONS = "\u200e\u200f\u061c"
"""Marks that act like a letter of one direction, but are not letters."""
FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Characters that Unicode classes as letters, marks or symbols, although they have no ink."""
SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0), range(0x180B, 0x1810))
KINDS = {
    "Cc": "control", "Cf": "invisible", "Cs": "half of a pair", "Co": "private use", "Cn": "not assigned",
    "Zl": "line separator", "Zp": "paragraph separator", "Zs": "blank",
}  # fmt: skip
NAMES = {
    0x00: "NULL", 0x08: "BACKSPACE", 0x09: "TAB", 0x0A: "LINE FEED", 0x0B: "VERTICAL TAB", 0x0C: "FORM FEED",
    0x0D: "CARRIAGE RETURN", 0x1B: "ESCAPE", 0x7F: "DELETE", 0x85: "NEXT LINE",
}  # fmt: skip
"""Unicode has no names for controls."""


@dataclass(frozen=True)
class Mark:
    """`at` counts characters of the text; `kind` says why the character is listed."""

    at: int
    code: str
    name: str
    kind: str


def find_marks(text: str) -> list[Mark]:
    return [
        Mark(at, f"U+{ord(letter):04X}", name_of(letter), kind)
        for at, letter in enumerate(text)
        if (kind := kind_of(letter)) is not None
    ]


def name_of(letter: str) -> str:
    return unicodedata.name(letter, None) or NAMES.get(ord(letter)) or KINDS[unicodedata.category(letter)].upper()


def kind_of(letter: str) -> str | None:
    """None for visible characters, and for the plain space."""
    if letter == " ":
        return None
    if unicodedata.bidirectional(letter) in TURNS or letter in DIRECTIONS:
        return "direction"
    if letter in FILLERS or any(ord(letter) in some for some in SELECTORS):
        return "invisible"
    return KINDS.get(unicodedata.category(letter))
