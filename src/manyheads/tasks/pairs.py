"""A batch of pairs, padded or packed: what a model reads, and what it should predict.

    PairBatch    one pair per row, with padding after the shorter ones
    PackedPairs  one pair after the other, in a pack of fixed size
    Parts        several of these, computed one after the other, for one update

source: ids and end · target: begin and ids · labels: ids and end

B pairs · S source tokens · T target tokens
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int, Shaped
from torch import Tensor

from manyheads.nn import Layout, Packed
from manyheads.text.batches import cut
from manyheads.text.packs import Room
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import BEGIN, END, PADDING
from manyheads.text.turns import Numbers

__all__ = ["PackedPairs", "PairBatch", "Pairs", "Parts", "pack_pairs", "pad_in_parts", "pad_pairs"]

NO_PAIRS: Any = field(default_factory=lambda: np.empty(0, np.int64))

Inputs = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Layout, Layout]


class Pairs(Protocol):
    """What a loss needs from a batch."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the model is called with."""
        ...

    @property
    def labels(self) -> Int[Tensor, "*target"]:
        """What it should predict; padding where nothing is learnt."""
        ...

    def twice(self) -> Self:
        """The same pairs, followed by the same pairs again."""
        ...


class Tensors:
    """A batch whose fields are tensors, except for plain numbers."""

    least: ClassVar[str] = "sentence"
    smaller: ClassVar[str] = "data.max_length leaves out the longest"

    @property
    def tokens(self) -> int:
        """Tokens that count towards the speed: the divisor of the loss, unless that is not tokens."""
        return self.count  # type: ignore[attr-defined]

    def names(self) -> list[str]:
        return [field.name for field in fields(self) if isinstance(getattr(self, field.name), Tensor)]  # type: ignore[arg-type]

    def tensors(self) -> list[Tensor]:
        return [getattr(self, name) for name in self.names()]

    def with_tensors(self, tensors: Iterable[Tensor]) -> Self:
        return replace(self, **dict(zip(self.names(), tensors, strict=True)))  # type: ignore[type-var]

    def to(self, device: torch.device) -> Self:
        if device.type == "cpu":
            return self
        return self.with_tensors(t.to(device, non_blocking=True) for t in self.tensors())

    def pinned(self) -> Self:
        """The batch in pinned memory, from which a GPU copies without anyone waiting."""
        return self.with_tensors(t.pin_memory() for t in self.tensors())


@dataclass(frozen=True, eq=False)
class PairBatch(Tensors):
    """A padded batch: one pair per row.

    count   target tokens of the whole batch, ends included, even in a part of it
    pairs   indices in the training set of the pairs of the whole batch
    """

    source: Int[Tensor, "B S"]
    target: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]
    count: int = 1
    pairs: Numbers = NO_PAIRS

    @property
    def inputs(self) -> Inputs:
        return self.source, self.target

    def split(self, parts: int) -> list["PairBatch"]:
        return [self.with_tensors(rows) for rows in zip(*(t.chunk(parts) for t in self.tensors()), strict=True)]

    def halves(self) -> list["PairBatch"]:
        return self.split(2)

    def twice(self) -> "PairBatch":
        return self.with_tensors(t.repeat(2, 1) for t in self.tensors())

    def rounded(self) -> Self:
        """The batch padded to one of a few shapes: a little wider, with extra rows from which nothing is learnt.

        The extra rows repeat the first one: a row without any tokens would be another kind of sentence.
        """
        rows = len(self.source)
        more = self.with_tensors(rounded_up(t) for t in self.tensors())
        more.labels[rows:] = PADDING
        return more


ROWS, TOKENS = 4, 8
"""Rows and tokens are rounded up to multiples of these.

Training a graph on 29,000 and on 156,000 pairs then takes some forty shapes instead of a hundred, and 7 to 10 % more
places.
"""


def rounded_up(t: Shaped[Tensor, "B *tokens"]) -> Shaped[Tensor, "_ *more"]:
    wider = F.pad(t, (0, -t.shape[1] % TOKENS), value=PADDING) if t.ndim > 1 else t
    return torch.cat([wider, wider[:1].expand(-len(t) % ROWS, *wider.shape[1:])])


@dataclass(frozen=True, eq=False)
class PackedPairs(Tensors):
    """A pack: one pair after the other, then, in the places left, sentences of padding.

    Shapes are the same for every pack of a run: the number of sentences is fixed, so some have no tokens.

    source_offsets, target_offsets   where each sentence starts, and finally the number of tokens
    longest                          no sentence is longer than this
    """

    source: Int[Tensor, " S"]
    target: Int[Tensor, " T"]
    labels: Int[Tensor, " T"]
    source_offsets: Int[Tensor, " starts"]
    target_offsets: Int[Tensor, " starts"]
    longest: int

    @property
    def inputs(self) -> Inputs:
        layouts = (
            Packed.from_offsets(self.source_offsets, len(self.source), self.longest),
            Packed.from_offsets(self.target_offsets, len(self.target), self.longest),
        )
        return self.source, self.target, *layouts

    def halves(self) -> list["PackedPairs"]:
        """The two halves, without the padding at the end. (Each source has one END: that is how pairs are counted.)"""
        pairs = int((self.source == END).sum())
        return [self.some(0, pairs // 2), self.some(pairs // 2, pairs)] if pairs > 1 else [self]

    def some(self, first: int, last: int) -> "PackedPairs":
        sources, targets = self.source_offsets[first : last + 1], self.target_offsets[first : last + 1]
        (start, end), (begin, stop) = sources[[0, -1]].tolist(), targets[[0, -1]].tolist()
        ids = self.source[start:end], self.target[begin:stop], self.labels[begin:stop]
        return self.with_tensors([*ids, sources - start, targets - begin])

    def twice(self) -> "PackedPairs":
        ids = (torch.cat([t, t]) for t in (self.source, self.target, self.labels))
        offsets = (torch.cat([t, t[1:] + t[-1]]) for t in (self.source_offsets, self.target_offsets))
        return self.with_tensors([*ids, *offsets])


Part = TypeVar("Part", PairBatch, PackedPairs)


@dataclass(frozen=True, eq=False)
class Parts(Generic[Part]):
    """Packs, or padded batches, for one update.

    count   target tokens of all of them, ends included
    pairs   indices of their pairs in the training set
    """

    parts: Sequence[Part]
    count: int
    pairs: Numbers = NO_PAIRS

    @property
    def tokens(self) -> int:
        return self.count

    def to(self, device: torch.device) -> "Parts[Part]":
        return replace(self, parts=[part.to(device) for part in self.parts])

    def pinned(self) -> "Parts[Part]":
        return replace(self, parts=[part.pinned() for part in self.parts])

    def split(self, parts: int) -> Sequence[Part]:
        """The parts as they were planned, whatever number is requested."""
        return self.parts


def pad_pairs(sources: Rows, targets: Rows) -> PairBatch:
    return PairBatch(
        source=torch.from_numpy(sources.padded(after=END)),
        target=torch.from_numpy(targets.padded(before=BEGIN)),
        labels=torch.from_numpy(targets.padded(after=END)),
        count=int(targets.lengths.sum()) + len(targets.lengths),
    )


def pad_in_parts(sources: Rows, targets: Rows, tokens: int, pad: Callable[[Rows, Rows], Any] = pad_pairs) -> list[Any]:
    """Padded batches, each of sentences of about one length, and of at most `tokens` tokens."""
    longest = np.maximum(sources.lengths, targets.lengths) + 1
    order = np.argsort(longest, kind="stable")
    parts = np.split(order, cut(longest[order], tokens)[1:-1]) if len(order) else []
    return [pad(sources.some(part), targets.some(part)) for part in parts]


def pack_pairs(sources: Rows, targets: Rows, room: Room, longest: int, *, framed: bool = True) -> PackedPairs:
    """A pack of pairs. A target that is `framed` has a begin where it is read and an end where it is predicted."""
    padding = -(-max(room.source, room.target) // longest)  # at most this many sentences of padding
    source, source_offsets = sources.packed(room.source, room.pairs, padding, longest, after=END)
    labels, target_offsets = targets.packed(room.target, room.pairs, padding, longest, after=END if framed else None)
    target = labels
    if framed:
        target = np.roll(labels, 1)
        target[target_offsets[: len(targets.lengths)]] = BEGIN
        target[target_offsets[len(targets.lengths)] :] = PADDING
    return PackedPairs(
        source=torch.from_numpy(source),
        target=torch.from_numpy(target),
        labels=torch.from_numpy(labels),
        source_offsets=torch.from_numpy(source_offsets),
        target_offsets=torch.from_numpy(target_offsets),
        longest=longest,
    )
