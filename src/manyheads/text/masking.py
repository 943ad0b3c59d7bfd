"""Masked words (Devlin et al. 2019): some words of a text are hidden, and a model is asked what they were.

Words are chosen whole: the model is asked for all pieces of a chosen word. Most of these pieces become a mask, some
become another piece, and some stay, so that a model must doubt every piece it reads. The choice follows from (seed,
epoch, text) alone: batches stay a function of the step, and every epoch asks for other words.

N pieces of all texts of a batch in a row · B texts
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from manyheads.errors import InputError
from manyheads.settings import MaskConfig
from manyheads.text.dropout import gathered, mixed
from manyheads.text.foreign import ForeignPieces, frame_of
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import FIRST, PADDING, Tokenizer
from manyheads.text.wordbegins import word_begins

__all__ = ["MASK", "Masking", "find_mask", "table_size"]

Ids = Int[np.ndarray, " N"]
Draws = Any
"""Unsigned 64-bit numbers, all equally likely."""

MASK = "[MASK]"
FATE, OTHER = np.uint64(0x5F8D_3A61), np.uint64(0xC2B2_AE35)
"""Derive two draws from one number: what becomes of a piece, and which piece takes its place."""

WHOLE, DRAWN = np.uint64(64), np.uint64(40)
"""Bits of a draw, and how many of them order the words of a text.

The rest hold the text's number, of 16 million in a batch.
"""


def find_mask(tokenizer: Tokenizer) -> int | None:
    """The id of the mask.

    Imported pieces have their own, or none; for other tokenizers it is an id after all pieces.
    """
    if isinstance(tokenizer, ForeignPieces):
        mask = tokenizer.tokenizer.token_to_id(MASK)
        return mask if mask in tokenizer.specials else None
    return tokenizer.size


def table_size(tokenizer: Tokenizer) -> int:
    """Rows of a table with one row for each piece and one for the mask."""
    return tokenizer.size + (not isinstance(tokenizer, ForeignPieces))


class Masking:
    """Hides words of texts that a tokenizer has cut.

    mask         id of the mask
    begins       whether each piece begins a word
    pieces       ids that texts are made of
    begin, end   ids that stand around a text
    """

    def __init__(self, tokenizer: Tokenizer, config: MaskConfig, seed: int = 0) -> None:
        self.tokenizer, self.config, self.seed = tokenizer, config, seed
        self.mask = checked_mask(tokenizer)
        self.begins, self.pieces = word_begins(tokenizer), text_pieces(tokenizer)
        self.begin, self.end = frame_of(tokenizer)

    @property
    def around(self) -> int:
        """How many tokens stand around a text."""
        return len(self.begin) + len(self.end)

    def __call__(self, texts: Rows, keys: Ids, epoch: int = 0) -> tuple[Rows, Rows]:
        """(what is read, what is asked for), begin and end included; padding stands where nothing is asked for.

        `keys` tell texts apart: the same key and epoch hide the same words, whatever else is in the batch.
        """
        texts = gathered(texts)
        text, place = places_of(texts)
        stream = mixed(np.uint64(self.seed) + (np.uint64(epoch) << np.uint64(32)))
        of_texts = mixed(keys.astype(np.uint64) ^ stream)
        draws = mixed(of_texts[text] + place.astype(np.uint64))
        ids = texts.ids.astype(np.int64)
        chosen = self.choose(self.begins[ids] | (place == 0), text, draws, of_texts)
        asked = np.where(chosen, ids, PADDING)
        ids[chosen] = self.hidden(ids[chosen], draws[chosen])
        return self.framed(texts, ids, asked)

    def choose(
        self, starts: Bool[np.ndarray, " N"], text: Ids, draws: Draws, of_texts: Draws
    ) -> Bool[np.ndarray, " N"]:
        """The pieces of the words to hide: in each text, the words with the lowest draws.

        Their number is the recipe's share of the words, but at least one. A fractional number is rounded up or down at
        random, so that the mean is right.
        """
        first = np.flatnonzero(starts)  # the draw of a word is that of its first piece
        words = np.bincount(text[first], minlength=len(of_texts))
        most = np.maximum(1, (self.config.words * words + fractions(of_texts)).astype(np.int64))
        return lowest(text[first], draws[first], words, most)[np.cumsum(starts) - 1]

    def hidden(self, ids: Ids, draws: Draws) -> Ids:
        """What is read in place of chosen pieces."""
        fate, other = mixed(draws ^ FATE), mixed(draws ^ OTHER)
        drawn = self.pieces[(other % np.uint64(len(self.pieces))).astype(np.int64)]
        replaced = np.where(fate < below(self.config.hidden + self.config.replaced), drawn, ids)
        return np.where(fate < below(self.config.hidden), self.mask, replaced)

    def framed(self, texts: Rows, *sides: Ids) -> tuple[Rows, Rows]:
        """Put begin and end around the texts. They are read, and never asked for."""
        lengths = texts.lengths + self.around
        starts = np.cumsum(lengths) - lengths
        inside = np.repeat(starts - texts.starts + len(self.begin), texts.lengths) + np.arange(len(texts.ids))
        read, asked = np.zeros((2, int(lengths.sum())), np.int64)
        read[inside], asked[inside] = sides
        for tokens, first in ((self.begin, starts), (self.end, starts + lengths - len(self.end))):
            for n, token in enumerate(tokens):
                read[first + n] = token
        return Rows(read, starts, lengths), Rows(asked, starts, lengths)


def checked_mask(tokenizer: Tokenizer) -> int:
    mask = find_mask(tokenizer)
    if mask is None:
        raise InputError(f"a tokenizer for masked words must have a special piece {MASK}, got one without it")
    # 0 in the labels marks what is not asked for: no text may contain it.
    if isinstance(tokenizer, ForeignPieces) and PADDING not in tokenizer.specials:
        zero = tokenizer.pieces([PADDING])[0]
        raise InputError(f"piece {PADDING} of a tokenizer for masked words must be special, got {zero!r}")
    return mask


def text_pieces(tokenizer: Tokenizer) -> Ids:
    """Ids that texts are made of: all but the special ones and, for imported pieces, unused ids."""
    if isinstance(tokenizer, ForeignPieces):
        return np.array(sorted(set(tokenizer.tokenizer.get_vocab().values()) - tokenizer.specials), np.int64)
    return np.arange(FIRST, tokenizer.size)


def places_of(texts: Rows) -> tuple[Ids, Ids]:
    """(the text that each piece is in, its place there)"""
    text = np.repeat(np.arange(len(texts.lengths)), texts.lengths)
    return text, np.arange(len(text)) - texts.starts[text]


def lowest(text: Ids, draws: Draws, counts: Ids, most: Ids) -> Bool[np.ndarray, " N"]:
    """Whether each draw is among the `most` lowest of its text. Texts come in order, with `counts` draws each."""
    order = np.argsort(text.astype(np.uint64) << DRAWN | draws >> (WHOLE - DRAWN))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank < most[text]


def fractions(draws: Draws) -> Float[np.ndarray, " some"]:
    """Draws as numbers from 0 to below 1."""
    return (draws >> np.uint64(11)) * 2.0**-53


def below(probability: float) -> Any:
    """The number that a draw is below with the given probability."""
    return np.uint64(min(int(probability * 2.0**64), 2**64 - 1))
