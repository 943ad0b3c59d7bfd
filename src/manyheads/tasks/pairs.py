"""A batch of pairs, padded or packed: what a model reads, and what it should say.

    PairBatch    one pair a row, padding behind the shorter ones
    PackedPairs  one pair after the other, in a room of fixed size
    Parts        several of these, computed one after the other, that one update learns from

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
    """What a loss asks of a batch."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the model is called with."""
        ...

    @property
    def labels(self) -> Int[Tensor, "*target"]:
        """What it should say; padding where nothing is learnt."""
        ...

    def twice(self) -> Self:
        """The same pairs, and behind them the same once more."""
        ...


class Tensors:
    """A batch whose fields are tensors, but for plain numbers."""

    least: ClassVar[str] = "sentence"
    smaller: ClassVar[str] = "data.max_length leaves out the longest"

    @property
    def tokens(self) -> int:
        """What speed is told in: that which the loss is divided by, unless it is no tokens."""
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
        """In memory that a GPU copies from by itself, so that nobody waits for the copy."""
        return self.with_tensors(t.pin_memory() for t in self.tensors())


@dataclass(frozen=True, eq=False)
class PairBatch(Tensors):
    """One pair a row.

    count   target tokens, the end included, of the whole batch, also in a part of it
    pairs   which ones of the training set these are; also of the whole batch
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
        """Padded to one of few shapes: a little wider, and with rows behind the others of which nothing is learnt. They say what the first one says: a row
        without any tokens would be another kind of sentence."""
        rows = len(self.source)
        more = self.with_tensors(rounded_up(t) for t in self.tensors())
        more.labels[rows:] = PADDING
        return more


ROWS, TOKENS = 4, 8
"""What rows and tokens are rounded up to a multiple of. Graphs of 29,000 and of 156,000 pairs then have some forty shapes instead of a hundred, and 7 to 10 %
more places."""


def rounded_up(t: Shaped[Tensor, "B *tokens"]) -> Shaped[Tensor, "_ *more"]:
    wider = F.pad(t, (0, -t.shape[1] % TOKENS), value=PADDING) if t.ndim > 1 else t
    return torch.cat([wider, wider[:1].expand(-len(t) % ROWS, *wider.shape[1:])])


@dataclass(frozen=True, eq=False)
class PackedPairs(Tensors):
    """One pair after the other, as many as there are; then, in the places left, sentences of padding. Shapes are the same for every
    pack of a run: so many sentences there are always, some without tokens.

    source_offsets, target_offsets   where each sentence starts, and at last the number of tokens
    longest                          no sentence is longer
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
        """Without the padding behind them. (The end stands once in every source.)"""
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
    """Packs, or padded batches, that one update learns from.

    count   target tokens, the end included, of all of them
    pairs   which ones of the training set these are
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
        """As they were planned, whatever number is asked for."""
        return self.parts


def pad_pairs(sources: Rows, targets: Rows) -> PairBatch:
    return PairBatch(
        source=torch.from_numpy(sources.padded(after=END)),
        target=torch.from_numpy(targets.padded(before=BEGIN)),
        labels=torch.from_numpy(targets.padded(after=END)),
        count=int(targets.lengths.sum()) + len(targets.lengths),
    )


def pad_in_parts(sources: Rows, targets: Rows, tokens: int, pad: Callable[[Rows, Rows], Any] = pad_pairs) -> list[Any]:
    """Of sentences of about one length each, and of so many tokens at most."""
    longest = np.maximum(sources.lengths, targets.lengths) + 1
    order = np.argsort(longest, kind="stable")
    parts = np.split(order, cut(longest[order], tokens)[1:-1]) if len(order) else []
    return [pad(sources.some(part), targets.some(part)) for part in parts]


def pack_pairs(sources: Rows, targets: Rows, room: Room, longest: int, *, framed: bool = True) -> PackedPairs:
    """Framed, a target has a begin where it is read and an end where it is written."""
    padding = -(-max(room.source, room.target) // longest)  # sentences of it, at most
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
