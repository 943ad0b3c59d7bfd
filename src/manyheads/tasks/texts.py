"""A batch of texts, padded or packed: what a language model reads, and what it should predict next.

ids: begin and text · labels: text and end

B texts · T tokens
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from manyheads.nn import Packed
from manyheads.tasks.pairs import NO_PAIRS, Tensors
from manyheads.text.packs import Room
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import BEGIN, END, PADDING
from manyheads.text.turns import Numbers

__all__ = ["PackedTexts", "TextBatch", "count_tokens", "pack_texts", "pad_texts"]


@dataclass(frozen=True, eq=False)
class TextBatch(Tensors):
    """A padded batch: one text per row.

    count   tokens of the whole batch, ends included, even in a part of it
    pairs   indices in the training set of the texts of the whole batch
    """

    ids: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]
    count: int = 1
    pairs: Numbers = NO_PAIRS

    @property
    def inputs(self) -> tuple[Tensor]:
        return (self.ids,)

    def split(self, parts: int) -> list["TextBatch"]:
        return [self.with_tensors(rows) for rows in zip(*(t.chunk(parts) for t in self.tensors()), strict=True)]

    def halves(self) -> list["TextBatch"]:
        return self.split(2)

    def twice(self) -> "TextBatch":
        return self.with_tensors(t.repeat(2, 1) for t in self.tensors())


@dataclass(frozen=True, eq=False)
class PackedTexts(Tensors):
    """A pack: one text after the other, then, in the places left, texts of padding.

    offsets   where each text starts, and finally the number of tokens
    longest   no text is longer than this
    """

    ids: Int[Tensor, " T"]
    labels: Int[Tensor, " T"]
    offsets: Int[Tensor, " starts"]
    longest: int

    @property
    def inputs(self) -> tuple[Tensor, Packed]:
        return self.ids, Packed.from_offsets(self.offsets, len(self.ids), self.longest)

    def halves(self) -> list["PackedTexts"]:
        """The two halves, without the padding at the end. (Each text has one END: that is how texts are counted.)"""
        texts = int((self.labels == END).sum())
        return [self.some(0, texts // 2), self.some(texts // 2, texts)] if texts > 1 else [self]

    def some(self, first: int, last: int) -> "PackedTexts":
        offsets = self.offsets[first : last + 1]
        start, end = offsets[[0, -1]].tolist()
        return self.with_tensors([self.ids[start:end], self.labels[start:end], offsets - start])

    def twice(self) -> "PackedTexts":
        offsets = torch.cat([self.offsets, self.offsets[1:] + self.offsets[-1]])
        return self.with_tensors([*(torch.cat([t, t]) for t in (self.ids, self.labels)), offsets])


def count_tokens(texts: Rows) -> int:
    return int(texts.lengths.sum()) + len(texts.lengths)


def pad_texts(texts: Rows) -> TextBatch:
    return TextBatch(
        ids=torch.from_numpy(texts.padded(before=BEGIN)),
        labels=torch.from_numpy(texts.padded(after=END)),
        count=count_tokens(texts),
    )


def pack_texts(texts: Rows, room: Room, longest: int) -> PackedTexts:
    padding = -(-room.source // longest)  # at most this many texts of padding
    labels, offsets = texts.packed(room.source, room.pairs, padding, longest, after=END)
    ids = np.roll(labels, 1)
    ids[offsets[: len(texts.lengths)]] = BEGIN
    ids[offsets[len(texts.lengths)] :] = PADDING
    return PackedTexts(torch.from_numpy(ids), torch.from_numpy(labels), torch.from_numpy(offsets), longest)
