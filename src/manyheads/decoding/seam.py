"""The seam between a given prefix and what the model writes after it.

The pieces of a prefix are forced up to its last word. That word may go on, and then other pieces spell it ("A do" is
the start of "A dog"; "A dog " that of "A dog runs", where the space belongs to the piece " runs"). So from there on,
every piece is allowed that agrees with the remaining bytes.

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
"""The cost of what cannot be written: more pieces than any output has."""


LONGEST_SEAM = 6
"""The most pieces of a last word that are left unforced: some scripts have no spaces."""


class Prefix:
    """The text that an output must begin with.

    ids      the pieces that the tokenizer would write
    forced   the pieces that the output must begin with
    left     the bytes after them, which the model may spell as it likes
    """

    def __init__(self, text: str, tokenizer: Tokenizer, spelling: Spelling) -> None:
        (self.ids,) = tokenizer.encode([text]) if text else ([],)
        self.forced = self.ids[: last_word(self.ids, tokenizer)]
        self.left = text.encode()[len(spelling.write(self.forced)[0]) :]


def last_word(ids: Sequence[int], tokenizer: Tokenizer) -> int:
    """The index of the piece with which the last word begins.

    Byte pairs never cross the space before a word. A character is a piece whatever follows: with characters, the index
    is their number, so that all are forced.
    """
    if isinstance(tokenizer, Characters):
        return len(ids)
    last = max(0, len(ids) - 1)
    if isinstance(tokenizer, BytePairs):
        while last > max(0, len(ids) - LONGEST_SEAM) and not tokenizer.spellings[ids[last]].startswith(b" "):
            last -= 1
    return last


class Seam:
    """What may be written while bytes of the prefix remain."""

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self.costs_after = lru_cache(256)(self.work_out)

    def work_out(self, context: int, left: bytes) -> Int[np.ndarray, " W"]:
        """For each piece: how many more pieces are needed after it, at least, to write the remaining bytes."""
        costs = np.full(self.spelling.size, IMPOSSIBLE, np.int32)
        for i, added in enumerate(self.spelling.added[context]):
            if added.startswith(left):
                costs[i] = 0
            elif added and left.startswith(added):
                costs[i] = 1 + self.costs_after(int(self.spelling.after[context][i]), left[len(added) :]).min()
        return costs
