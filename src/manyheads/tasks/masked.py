"""A batch of texts with hidden words, padded or packed: what a model reads, where it predicts, and what is right there.

B texts · T tokens · N tokens of all texts · M places to predict, counted through all rows
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from manyheads.nn import Packed, Padded
from manyheads.tasks.pairs import NO_PAIRS, Tensors
from manyheads.text.packs import Room
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import PADDING
from manyheads.text.turns import Numbers

__all__ = ["MaskedBatch", "PackedMasked", "pack_masked", "pad_masked"]


@dataclass(frozen=True, eq=False)
class MaskedBatch(Tensors):
    """A padded batch: one text per row.

    keep    True where there is a token; None if there is no padding: attention without a mask is faster
    count   places to predict in the whole batch, even in a part of it
    pairs   indices in the training set of the texts of the whole batch
    """

    ids: Int[Tensor, "B T"]
    places: Int[Tensor, " M"]
    labels: Int[Tensor, " M"]
    keep: Bool[Tensor, "B T"] | None = None
    count: int = 1
    pairs: Numbers = NO_PAIRS

    @property
    def inputs(self) -> tuple[Tensor, Padded, Tensor]:
        return self.ids, Padded.like(self.ids, self.keep), self.places

    @property
    def tokens(self) -> int:
        """Tokens that count towards the speed: those to predict."""
        return self.count

    def split(self, parts: int) -> list["MaskedBatch"]:
        texts = torch.arange(len(self.ids)).chunk(parts)
        return [self.some(int(part[0]), int(part[-1]) + 1) for part in texts]

    def halves(self) -> list["MaskedBatch"]:
        return self.split(2)

    def some(self, first: int, last: int) -> "MaskedBatch":
        width = self.ids.shape[1]
        places, labels = within(self.places, self.labels, first * width, last * width)
        keep = None if self.keep is None else self.keep[first:last]
        return replace(self, ids=self.ids[first:last], places=places, labels=labels, keep=keep)

    def twice(self) -> "MaskedBatch":
        keep = None if self.keep is None else self.keep.repeat(2, 1)
        places = torch.cat([self.places, self.places + self.ids.numel()])
        return replace(self, ids=self.ids.repeat(2, 1), places=places, keep=keep)


@dataclass(frozen=True, eq=False)
class PackedMasked(Tensors):
    """A pack: one text after the other, then, in the places left, texts of padding.

    Shapes are the same for every pack of a run: places that are left over have no label.

    offsets   where each text starts, and finally the number of tokens
    texts     how many are not padding
    longest   no text is longer than this
    """

    ids: Int[Tensor, " N"]
    places: Int[Tensor, " M"]
    labels: Int[Tensor, " M"]
    offsets: Int[Tensor, " starts"]
    texts: int
    longest: int

    @property
    def inputs(self) -> tuple[Tensor, Packed, Tensor]:
        return self.ids, Packed.from_offsets(self.offsets, len(self.ids), self.longest), self.places

    def halves(self) -> list["PackedMasked"]:
        """The two halves, without the padding at the end."""
        half = self.texts // 2
        return [self.some(0, half), self.some(half, self.texts)] if half else [self]

    def some(self, first: int, last: int) -> "PackedMasked":
        offsets = self.offsets[first : last + 1]
        start, end = offsets[[0, -1]].tolist()
        asked = within(self.places, self.labels, start, end)
        return replace(self.with_tensors([self.ids[start:end], *asked, offsets - start]), texts=last - first)

    def twice(self) -> "PackedMasked":
        offsets = torch.cat([self.offsets, self.offsets[1:] + self.offsets[-1]])
        places = torch.cat([self.places, self.places + len(self.ids)])
        return self.with_tensors([torch.cat([self.ids, self.ids]), places, self.labels, offsets])


def within(
    places: Int[Tensor, " M"], labels: Int[Tensor, " M"], first: int, last: int
) -> tuple[Int[Tensor, " some"], Int[Tensor, " some"]]:
    """The places and labels in a range of tokens, with places counted from its start."""
    mine = (places >= first) & (places < last)
    return places[mine] - first, labels[mine]


def pad_masked(read: Rows, asked: Rows) -> MaskedBatch:
    ids, labels = read.padded(), asked.padded().ravel()
    places, columns = np.flatnonzero(labels), np.arange(ids.shape[1])
    keep = None if (read.lengths == len(columns)).all() else torch.from_numpy(columns < read.lengths[:, None])
    return MaskedBatch(
        ids=torch.from_numpy(ids),
        places=torch.from_numpy(places),
        labels=torch.from_numpy(labels[places]),
        keep=keep,
        count=len(places),
    )


def pack_masked(read: Rows, asked: Rows, room: Room, longest: int, most: int) -> PackedMasked:
    """A pack with `most` places to predict; `asked` may not have more."""
    padding = -(-room.source // longest)  # at most this many texts of padding
    ids, offsets = read.packed(room.source, room.pairs, padding, longest)
    labels, _ = asked.packed(room.source, room.pairs, padding, longest)
    places = np.argsort(labels == PADDING, kind="stable")[:most]  # those with labels, in order; then others, each once
    tensors = (torch.from_numpy(array) for array in (ids, places, labels[places], offsets))
    return PackedMasked(*tensors, texts=len(read.lengths), longest=longest)
