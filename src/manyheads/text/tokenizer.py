"""What a tokenizer is: it turns any line of text into ids, and the ids back into exactly that text.

    bpe          pieces of words, learnt by byte-pair encoding over bytes                        bytepairs.py
    characters   one piece per character                                                         listed.py
    symbols      one piece for whatever stands between single spaces: phones, words, log fields  listed.py

In all of them, ids 0, 1 and 2 are padding, begin and end. They have no spelling, so no text can produce them. Whatever
training has never seen is spelt in bytes, so nothing is unknown. No id spells a newline: one line in, one line out.
"""

import codecs
import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol

from manyheads.errors import InputError, brief
from manyheads.text.units import Units

__all__ = [
    "ANGLES",
    "BEGIN",
    "BYTES",
    "END",
    "FIRST",
    "NEWLINE",
    "PACKED",
    "PADDING",
    "SPECIALS",
    "SURROGATE",
    "Tokenizer",
    "check_line",
    "check_strings",
]

PADDING, BEGIN, END = 0, 1, 2
SPECIALS = ("<pad>", "<bos>", "<eos>")
NEWLINE = ord("\n")
BYTES = [bytes([b]) for b in range(256) if b != NEWLINE]
FIRST = len(SPECIALS)
PACKED = "i"
"""The type code of `array` for 32-bit numbers."""

SURROGATE = re.compile(r"[\ud800-\udfff]")

ANGLES = "manyheads.angles"
"""The error handler for decoding text for display: bytes that are not a complete letter become ‹f0› and the like."""


class Tokenizer(Protocol):
    """Text to ids and back."""

    kind: ClassVar[str]
    size: int

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without begin and end."""
        ...

    def encode_packed(self, texts: Sequence[str]) -> list[bytes]:
        """The same as 32-bit numbers, for millions of texts."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text that ids spell; special ids add nothing."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each id stands for, for display."""
        ...

    def units(self, ids: Iterable[int]) -> Units:
        """The number of the word that each id is part of, or of the character if pieces are characters."""
        ...

    def as_json(self) -> dict[str, Any]: ...


def angled(error: Any) -> tuple[str, int]:
    return "".join(f"‹{b:02x}›" for b in error.object[error.start : error.end]), error.end


codecs.register_error(ANGLES, angled)


def check_line(text: str) -> str:
    if "\n" in text:
        raise InputError(f"a text must be one line, got {text[:40]!r}", hint="give its lines one by one")
    if half := SURROGATE.search(text):
        raise InputError(f"a text must be Unicode, got half of a surrogate pair, {half[0]!r}, at {half.start()}")
    return text


def check_strings(pieces: Any) -> list[str]:
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise InputError(f"the pieces of a tokenizer must be a list of texts, got {brief(pieces)}")
    return pieces
