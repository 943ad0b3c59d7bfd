"""Byte-level BPE: pieces of words, learnt by repeatedly joining the most frequent pair of neighbours."""

import json
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from manyheads.errors import InputError, OptionError
from manyheads.text.tokenizer import ANGLES, FIRST, NEWLINE, PACKED, SPECIALS, check_line, check_strings
from manyheads.text.units import Units, word_units

__all__ = ["BytePairs"]

MOST_KNOWN = 200_000
LONGEST_KNOWN = 100
"""Words that are remembered (some 30 MB), and the most characters of each: a line without spaces rarely recurs."""


def letters_for_bytes() -> dict[str, int]:
    """The letter that stands for each byte in byte-level BPE: itself if printable, otherwise one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + n): b for n, b in enumerate(others)}


BYTE_OF = letters_for_bytes()
LONGEST_WORD = 1_000
UNBROKEN = re.compile(rf"\S{{{LONGEST_WORD}}}")
ALPHABET = sorted(letter for letter, b in BYTE_OF.items() if b != NEWLINE)


class BytePairs:
    """Byte-level BPE with a space before every text, so that a word has the same pieces at the start and in the middle.

    No piece reaches across a single space, so whatever stands between two spaces is cut once and remembered. That is
    several times as fast as cutting every text anew. (Runs of spaces are pieces of their own, so a text that has them
    is cut as a whole.)
    """

    kind: ClassVar[str] = "bpe"

    def __init__(self, merges: Iterable[tuple[str, str]]) -> None:
        self.merges = [(left, right) for left, right in merges]
        ids = {letter: i for i, letter in enumerate(ALPHABET)}
        for left, right in self.merges:
            if left not in ids or right not in ids:
                raise InputError(f"a merge must join two existing pieces, got {left!r} and {right!r}")
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
                f"a vocabulary of byte pairs must have at least {smallest} pieces, got data.vocabulary = {size}",
                hint=f"data.vocabulary={smallest} or more",
            )
        engine = tokenizers.Tokenizer(models.BPE())
        engine.pre_tokenizer = byte_level()
        trainer = trainers.BpeTrainer(
            vocab_size=size - FIRST, min_frequency=2, initial_alphabet=ALPHABET, special_tokens=[], show_progress=False
        )
        engine.train_from_iterator((part for text in texts for part in stretches(f" {text}")), trainer)
        return cls(learnt_merges(engine))


def stretches(text: str) -> list[str]:
    """The text itself, or parts of it if it has endless words: learning takes time quadratic in a word's length."""
    return UNBROKEN.sub("\\g<0>\n", text).split("\n") if len(text) > LONGEST_WORD else [text]


def words_of(text: str) -> list[str]:
    return [text] if "  " in f" {text}" or text.endswith(" ") else text.split(" ")


def byte_level() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def learnt_merges(engine: tokenizers.Tokenizer) -> list[tuple[str, str]]:
    return [(left, right) for left, right in json.loads(engine.to_str())["model"]["merges"]]
