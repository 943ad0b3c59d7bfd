"""Tokenizers whose pieces are a list: of characters, or of symbols between single spaces."""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, ClassVar

from manyheads.errors import InputError, OptionError
from manyheads.text.tokenizer import ANGLES, BYTES, FIRST, PACKED, SPECIALS, check_line, check_strings
from manyheads.text.units import Units, character_units, word_units

__all__ = ["Characters", "Listed", "Symbols"]


class Listed:
    """Pieces from a list, and bytes for everything else. `form` is the pattern that listed pieces match."""

    kind: ClassVar[str]
    form: ClassVar[re.Pattern[str]]

    def __init__(self, listed: Iterable[str]) -> None:
        self.listed = list(listed)
        self.after_bytes = FIRST + len(BYTES)
        self.ids = {piece: i for i, piece in enumerate(self.listed, self.after_bytes)}
        self.byte_ids = {spelling[0]: i for i, spelling in enumerate(BYTES, FIRST)}
        self.size = self.after_bytes + len(self.listed)
        if len(self.ids) != len(self.listed):
            raise InputError("the pieces of a tokenizer must differ from each other, got one twice")
        if odd := [piece for piece in self.listed if not self.form.fullmatch(piece)]:
            raise InputError(f"{odd[0][:40]!r} cannot be a piece of {self.kind}")

    def spell(self, piece: str) -> list[int]:
        return [self.byte_ids[b] for b in piece.encode("utf-8")]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        raise NotImplementedError

    def encode_packed(self, texts: Sequence[str]) -> list[bytes]:
        return [array(PACKED, ids).tobytes() for ids in self.encode(texts)]

    def is_byte(self, i: int) -> bool:
        return FIRST <= i < self.after_bytes

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.piece(i) for i in ids]

    def spelling(self, i: int) -> bytes:
        """The bytes that an id adds to a text."""
        if i < FIRST:
            return b""
        return BYTES[i - FIRST] if self.is_byte(i) else self.listed[i - self.after_bytes].encode()

    def piece(self, i: int) -> str:
        if i < FIRST:
            return SPECIALS[i]
        if self.is_byte(i):
            return BYTES[i - FIRST].decode("utf-8", errors=ANGLES)
        return self.listed[i - self.after_bytes]

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "pieces": self.listed}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Listed":
        return cls(check_strings(stored["pieces"]))

    @classmethod
    def most_common(cls, counts: Counter[str], size: int) -> "Listed":
        room = size - FIRST - len(BYTES)
        if room < 1:
            raise OptionError(
                f"a vocabulary of {cls.kind} must have at least {FIRST + len(BYTES) + 1} pieces, got data.vocabulary = {size}"
            )
        by_count = sorted(counts, key=lambda piece: (-counts[piece], piece))
        return cls(sorted(by_count[:room]))


class Characters(Listed):
    """One piece per character."""

    kind: ClassVar[str] = "characters"
    form = re.compile(r"[^\n\ud800-\udfff]")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(chain.from_iterable(map(self.character, check_line(text)))) for text in texts]

    def character(self, letter: str) -> list[int]:
        return [self.ids[letter]] if letter in self.ids else self.spell(letter)

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(map(self.spelling, ids)).decode("utf-8", errors="replace")

    def units(self, ids: Iterable[int]) -> Units:
        return character_units(map(self.spelling, ids))

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> "Listed":
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text)
        return cls.most_common(counts, size)


class Symbols(Listed):
    """One piece for whatever stands between single spaces.

    A symbol that is not listed becomes its bytes and then a space.
    """

    kind: ClassVar[str] = "symbols"
    form = re.compile(r"[^ \n\ud800-\udfff]+")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(chain.from_iterable(map(self.symbol, check_line(text).split(" ")))) for text in texts]

    def symbol(self, symbol: str) -> list[int]:
        return [self.ids[symbol]] if symbol in self.ids else self.spell(symbol + " ")

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.symbols(i for i in ids if i >= FIRST))

    def units(self, ids: Iterable[int]) -> Units:
        """A listed piece is a word of its own, whatever stands before it; bytes continue a word until a space."""
        return word_units(self.spelling(i) if i < self.after_bytes else b" %b " % self.spelling(i) for i in ids)

    def symbols(self, ids: Iterable[int]) -> Iterator[str]:
        spelt = b""
        for i in ids:
            piece = BYTES[i - FIRST] if self.is_byte(i) else None
            if piece is not None and piece != b" ":
                spelt += piece
                continue
            if spelt or piece == b" ":
                yield spelt.decode("utf-8", errors="replace")
            spelt = b""
            if piece is None:
                yield self.piece(i)
        if spelt:
            yield spelt.decode("utf-8", errors="replace")

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> "Listed":
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(symbol for symbol in text.split(" ") if symbol)
        return cls.most_common(counts, size)
