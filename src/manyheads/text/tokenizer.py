"""Tokenizers: a line of text to ids and back, exactly, whatever the text.

    bpe          pieces of words, learnt by byte-pair encoding over bytes
    characters   one piece a character
    symbols      one piece for what stands between single spaces: phones, words, fields of a log

In all of them ids 0, 1 and 2 are padding, begin and end. No text can produce them: they have no spelling. What was never
seen in training is spelt in bytes, so nothing is unknown. No id spells a newline: one line in, one line out.
"""

import codecs
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Protocol

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from manyheads.errors import InputError, OptionError, brief, choose
from manyheads.text.units import Units, character_units, word_units

__all__ = ["BEGIN", "END", "PADDING", "BytePairs", "Characters", "Symbols", "Tokenizer", "train_tokenizer"]

PADDING, BEGIN, END = 0, 1, 2
SPECIALS = ("<pad>", "<bos>", "<eos>")
NEWLINE = ord("\n")
BYTES = [bytes([b]) for b in range(256) if b != NEWLINE]
FIRST = len(SPECIALS)
PACKED = "i"
"""32-bit numbers, as `array` calls them."""

MOST_KNOWN = 200_000
LONGEST_KNOWN = 100
"""Words that are remembered, some 30 MB of them, and their characters at most: a line without spaces hardly comes again."""

SURROGATE = re.compile(r"[\ud800-\udfff]")


ANGLES = "manyheads.angles"
"""How to decode what is shown to people: that which is no whole letter as its bytes, ‹f0›."""


def angled(error: Any) -> tuple[str, int]:
    return "".join(f"‹{b:02x}›" for b in error.object[error.start : error.end]), error.end


codecs.register_error(ANGLES, angled)


class Tokenizer(Protocol):
    """Text to ids and back."""

    kind: ClassVar[str]
    size: int

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without begin and end."""
        ...

    def encode_packed(self, texts: Sequence[str]) -> list[bytes]:
        """The same as 32-bit numbers: for millions of texts."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text that ids spell; specials are silent."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each id stands for, to be shown to people."""
        ...

    def units(self, ids: Iterable[int]) -> Units:
        """The word that each id is part of; where pieces are characters, the character."""
        ...

    def as_json(self) -> dict[str, Any]: ...


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


# ── byte pairs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def letters_for_bytes() -> dict[str, int]:
    """The letter that stands for each byte in byte-level BPE: itself where it can be printed, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + n): b for n, b in enumerate(others)}


BYTE_OF = letters_for_bytes()
ALPHABET = sorted(letter for letter, b in BYTE_OF.items() if b != NEWLINE)


class BytePairs:
    """Byte-level BPE. A space is put before every text, so that a word is the same piece at the start and in the middle.

    No piece reaches over a single space: what stands between two of them is cut once and remembered. That is several times
    as fast as cutting every text anew. (Runs of spaces are pieces of their own: a text that has them is cut as a whole.)
    """

    kind: ClassVar[str] = "bpe"

    def __init__(self, merges: Iterable[tuple[str, str]]) -> None:
        self.merges = [(left, right) for left, right in merges]
        ids = {letter: i for i, letter in enumerate(ALPHABET)}
        for left, right in self.merges:
            if left not in ids or right not in ids:
                raise InputError(f"a merge must join two pieces that are there, got {left!r} and {right!r}")
            ids.setdefault(left + right, len(ids))
        self.spellings = [b"", b"", b"", *map(self.spelling, ids)]
        self.size = len(self.spellings)
        self.engine = tokenizers.Tokenizer(models.BPE(ids, self.merges))
        self.engine.pre_tokenizer = byte_level()
        self.known: dict[str, bytes] = {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [array(PACKED, packed).tolist() for packed in self.encode_packed(texts)]

    def encode_packed(self, texts: Sequence[str]) -> list[bytes]:
        by_text = [words_of(check_line(text)) for text in texts]
        pieces = self.pieces_of(set().union(*by_text))
        return [b"".join(map(pieces.__getitem__, words)) for words in by_text]

    @staticmethod
    def spelling(piece: str) -> bytes:
        return bytes(BYTE_OF[letter] for letter in piece)

    def pieces_of(self, words: set[str]) -> Mapping[str, bytes]:
        new = words - self.known.keys()
        found = self.cut(list(new)) if new else {}
        short = {word: ids for word, ids in found.items() if len(word) <= LONGEST_KNOWN}
        if len(self.known) + len(short) <= MOST_KNOWN:
            self.known.update(short)
            if len(short) == len(found):
                return self.known
        return {word: self.known[word] for word in words - new} | found

    def cut(self, words: list[str]) -> dict[str, bytes]:
        encoded = self.engine.encode_batch_fast([" " + word for word in words], add_special_tokens=False)
        ids = ([i + FIRST for i in one.ids] for one in encoded)
        return {word: array(PACKED, its_own).tobytes() for word, its_own in zip(words, ids, strict=True)}

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(self.spellings[i] for i in ids).decode("utf-8", errors="replace").removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [SPECIALS[i] if i < FIRST else self.spellings[i].decode("utf-8", errors=ANGLES) for i in ids]

    def units(self, ids: Iterable[int]) -> Units:
        return word_units(self.spellings[i] for i in ids)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "merges": [f"{left} {right}" for left, right in self.merges]}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "BytePairs":
        return cls((left, right) for left, right in (merge.split(" ") for merge in check_strings(stored["merges"])))

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> "BytePairs":
        smallest = FIRST + len(ALPHABET)
        if size < smallest:
            raise OptionError(
                f"a vocabulary of byte pairs holds at least {smallest} pieces, got data.vocabulary = {size}",
                hint="'characters' and 'symbols' are tokenizers that need no more than the data has",
            )
        engine = tokenizers.Tokenizer(models.BPE())
        engine.pre_tokenizer = byte_level()
        trainer = trainers.BpeTrainer(
            vocab_size=size - FIRST, min_frequency=2, initial_alphabet=ALPHABET, special_tokens=[], show_progress=False
        )
        engine.train_from_iterator((" " + text for text in texts), trainer)
        return cls(learnt_merges(engine))


def words_of(text: str) -> list[str]:
    return [text] if "  " in f" {text}" or text.endswith(" ") else text.split(" ")


def byte_level() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def learnt_merges(engine: tokenizers.Tokenizer) -> list[tuple[str, str]]:
    return [(left, right) for left, right in json.loads(engine.to_str())["model"]["merges"]]


# ── listed pieces ───────────────────────────────────────────────────────────────────────────────────────────────────


class Listed:
    """Pieces from a list, and bytes for all that is not in it. `form` is what a listed piece looks like."""

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
        """What an id adds to a text."""
        if i < FIRST:
            return b""
        return BYTES[i - FIRST] if self.is_byte(i) else self.listed[i - self.after_bytes].encode()

    def piece(self, i: int) -> str:
        if i < FIRST:
            return SPECIALS[i]
        if self.is_byte(i):
            b = BYTES[i - FIRST][0]
            return bytes([b]).decode("utf-8", errors=ANGLES)
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
                f"a vocabulary of {cls.kind} holds at least {FIRST + len(BYTES) + 1} pieces, got data.vocabulary = {size}"
            )
        by_count = sorted(counts, key=lambda piece: (-counts[piece], piece))
        return cls(sorted(by_count[:room]))


class Characters(Listed):
    """One piece a character."""

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
    """One piece for what stands between single spaces. A symbol that is not listed is its bytes and then a space."""

    kind: ClassVar[str] = "symbols"
    form = re.compile(r"[^ \n\ud800-\udfff]+")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(chain.from_iterable(map(self.symbol, check_line(text).split(" ")))) for text in texts]

    def symbol(self, symbol: str) -> list[int]:
        return [self.ids[symbol]] if symbol in self.ids else self.spell(symbol + " ")

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.symbols(i for i in ids if i >= FIRST))

    def units(self, ids: Iterable[int]) -> Units:
        """A listed piece is a word of its own, whatever stands before it; bytes go on until a space."""
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


KINDS: dict[str, Any] = {kind.kind: kind for kind in (BytePairs, Characters, Symbols)}


def train_tokenizer(kind: str, texts: Iterable[str], size: int) -> Tokenizer:
    """A tokenizer of at most `size` pieces, specials included, learnt from texts."""
    return choose("data.tokenizer", kind, KINDS).train(texts, size)
