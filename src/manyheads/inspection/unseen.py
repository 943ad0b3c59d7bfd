"""Characters that leave no ink, or that change the order of others: what they are called, and where they stand.

A text may look like another and be none: a blank that does not break, an override that turns a line around, a joiner. Models
read them as pieces like any other. Here each is named.
"""

import unicodedata
from dataclasses import dataclass

__all__ = ["Mark", "find_marks"]

TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
DIRECTIONS = "\u200e\u200f\u061c"
"""Marks that are written like a letter of one direction, and are none."""
FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""What Unicode calls letters, marks or signs, and yet has no ink."""
SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0), range(0x180B, 0x1810))
KINDS = {
    "Cc": "control", "Cf": "invisible", "Cs": "half of a pair", "Co": "private use", "Cn": "not assigned",
    "Zl": "line separator", "Zp": "paragraph separator", "Zs": "blank",
}  # fmt: skip
NAMES = {
    0x00: "NULL", 0x08: "BACKSPACE", 0x09: "TAB", 0x0A: "LINE FEED", 0x0B: "VERTICAL TAB", 0x0C: "FORM FEED",
    0x0D: "CARRIAGE RETURN", 0x1B: "ESCAPE", 0x7F: "DELETE", 0x85: "NEXT LINE",
}  # fmt: skip
"""Controls have no name of their own in Unicode."""


@dataclass(frozen=True)
class Mark:
    """`at` counts characters of the text; `kind` says why it is worth a word."""

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
    """None for what can be seen, and for the blank that words are cut at."""
    if letter == " ":
        return None
    if unicodedata.bidirectional(letter) in TURNS or letter in DIRECTIONS:
        return "direction"
    if letter in FILLERS or any(ord(letter) in some for some in SELECTORS):
        return "invisible"
    return KINDS.get(unicodedata.category(letter))
