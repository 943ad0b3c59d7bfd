"""What each piece adds to the text, in bytes.

That depends on what stands before it: byte pairs lose a space at the very start; symbols are joined by one. A
`Spelling` has a few such contexts; a piece that is written in one of them adds its bytes and leads to the next. The
bytes of a sequence of pieces are the UTF-8 of what the tokenizer decodes it to.

W pieces
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from manyheads.errors import OptionError
from manyheads.text.bytepairs import BytePairs
from manyheads.text.listed import Characters, Listed, Symbols
from manyheads.text.tokenizer import BYTES, FIRST, Tokenizer

__all__ = ["START", "Spelling", "spelling_of"]

START = 0
"""The context of the first piece."""

SPACE = b" "


@dataclass(frozen=True)
class Spelling:
    """How the pieces of a tokenizer are spelt.

    added   for each context: the bytes that each piece adds
    after   for each context: the context that each piece leads to
    """

    added: list[list[bytes]]
    after: list[Int[np.ndarray, " W"]]

    @property
    def size(self) -> int:
        return len(self.added[START])

    @cached_property
    def later(self) -> list[int]:
        """The contexts that pieces lead to."""
        return sorted({int(context) for row in self.after for context in np.unique(row)})

    @cached_property
    def columns(self) -> list[list[tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]]]:
        """For each context, the first, second, … bytes of all pieces that have one: (pieces, bytes)."""
        return [list(byte_columns(added)) for added in self.added]

    def write(self, ids: list[int], context: int = START) -> tuple[bytes, int]:
        """The bytes that these pieces add, and the context after them."""
        written = b""
        for i in ids:
            written += self.added[context][i]
            context = int(self.after[context][i])
        return written, context


def byte_columns(added: list[bytes]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    lengths, letters = np.array(list(map(len, added))), np.frombuffer(b"".join(added), np.uint8)
    starts = lengths.cumsum() - lengths
    for place in range(lengths.max()):
        pieces = (lengths > place).nonzero()[0]
        yield pieces, letters[starts[pieces] + place].astype(np.int64)


def spelling_of(tokenizer: Tokenizer) -> Spelling:
    if isinstance(tokenizer, BytePairs):
        later = tokenizer.spellings
        return contexts([piece.removeprefix(SPACE) for piece in later], later, after=[[1] * len(later)] * 2)
    if isinstance(tokenizer, Characters):
        return contexts(listed_bytes(tokenizer), after=[[START] * tokenizer.size])
    if isinstance(tokenizer, Symbols):
        return spelling_of_symbols(tokenizer)
    raise OptionError(f"wishes need a tokenizer whose spelling is known, got one of kind {tokenizer.kind!r}")


def contexts(*added: list[bytes], after: list[list[int]]) -> Spelling:
    return Spelling(list(added), [np.array(row, dtype=np.int64) for row in after])


def listed_bytes(tokenizer: Listed) -> list[bytes]:
    return [b""] * FIRST + BYTES + [piece.encode() for piece in tokenizer.listed]


def spelling_of_symbols(tokenizer: Symbols) -> Spelling:
    """Three contexts: at the start; inside a symbol spelt in bytes, which a space ends; after a whole symbol."""
    inside, whole = 1, 2
    at_start = listed_bytes(tokenizer)
    at_start[FIRST + BYTES.index(SPACE)] = b""  # it ends a symbol, here an empty one: the next one adds the space
    joined = [b"" if i < FIRST else SPACE + piece for i, piece in enumerate(at_start)]
    in_symbol = [piece if tokenizer.is_byte(i) else joined[i] for i, piece in enumerate(at_start)]
    after = [whole] * tokenizer.size
    for i in range(FIRST, tokenizer.after_bytes):
        after[i] = whole if BYTES[i - FIRST] == SPACE else inside
    return contexts(at_start, in_symbol, joined, after=[after] * 3)
