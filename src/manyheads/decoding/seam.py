"""Where a given beginning ends and the model goes on.

The pieces of a prefix are forced up to its last word. That word may go on, and then other pieces spell it ("A do" is the
start of "A dog"; "A dog " of " runs", whose piece has the space in it). So from there on every piece is allowed that agrees
with the bytes that are left.

W pieces
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Int

from manyheads.decoding.spelling import Spelling
from manyheads.text.bytepairs import BytePairs
from manyheads.text.listed import Characters
from manyheads.text.tokenizer import Tokenizer

__all__ = ["IMPOSSIBLE", "Prefix", "Seam"]

IMPOSSIBLE = 1 << 20
"""Pieces that no output has: the price of what cannot be."""


LONGEST_SEAM = 6
"""Pieces of a last word that are not forced. Some scripts have no spaces."""


class Prefix:
    """
    ids      the pieces that the tokenizer would write
    forced   those that the output begins with
    left     bytes that follow them, spelt as the model likes
    """

    def __init__(self, text: str, tokenizer: Tokenizer, spelling: Spelling) -> None:
        (self.ids,) = tokenizer.encode([text]) if text else ([],)
        self.forced = self.ids[: last_word(self.ids, tokenizer)]
        self.left = text.encode()[len(spelling.write(self.forced)[0]) :]


def last_word(ids: Sequence[int], tokenizer: Tokenizer) -> int:
    """The place of the piece that the last word begins with. Byte pairs never cross the space before a word, and a
    character is a piece whatever follows."""
    if isinstance(tokenizer, Characters):
        return len(ids)
    last = max(0, len(ids) - 1)
    if isinstance(tokenizer, BytePairs):
        while last > max(0, len(ids) - LONGEST_SEAM) and not tokenizer.spellings[ids[last]].startswith(b" "):
            last -= 1
    return last


class Seam:
    """What may be written where bytes are left to write."""

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self.costs_after = lru_cache(256)(self.work_out)

    def work_out(self, context: int, left: bytes) -> Int[np.ndarray, " W"]:
        """After each piece: how many more it takes at least to have the bytes written."""
        costs = np.full(self.spelling.size, IMPOSSIBLE, np.int32)
        for i, added in enumerate(self.spelling.added[context]):
            if added.startswith(left):
                costs[i] = 0
            elif added and left.startswith(added):
                costs[i] = 1 + self.costs_after(int(self.spelling.after[context][i]), left[len(added) :]).min()
        return costs
