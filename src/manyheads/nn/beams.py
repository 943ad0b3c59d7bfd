"""The cache of beam search, of fixed size: nothing in it grows or moves, so a step can be recorded and replayed.

The k beams of a sentence are the queries of one attention.

    memory   (B, G, S, K)      All beams of a sentence read the same source: k queries share one copy of its keys.
    past     (B, G, R, k, K)   At each step every beam writes into its own slot, which then never moves. When beams
                               change places, only `seen` changes, the mask of what they may see: one bit for each
                               slot, instead of all its numbers.

The step is a tensor on the device: a replayed recording takes no arguments.

B sentences · k beams · R room, in steps · L steps that are looked at · G key/value heads · S source tokens
K, V widths
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.nn.blocks import DecoderBlock, DecoderCache
from manyheads.nn.cache import KeyValue
from manyheads.nn.layout import Padded
from manyheads.nn.multihead import MultiHeadAttention

__all__ = ["BeamCache", "BeamPast", "Room"]


class Room(NamedTuple):
    """The size of a `BeamCache`."""

    sentences: int
    beam: int
    source: int
    steps: int


class BeamPast(NamedTuple):
    """What one block has seen, and the step at which the newest token is written."""

    room: KeyValue
    step: Int[Tensor, " 1"]
    seen: Bool[Tensor, "B 1 k slots"]

    def append(self, k: Float[Tensor, "B G k K"], v: Float[Tensor, "B G k V"]) -> KeyValue:
        """Write the newest token of every beam; return all slots of the first L steps, (B, G, L·k, K)."""
        steps = self.seen.shape[3] // k.shape[2]
        for room, newest in zip(self.room, (k, v), strict=True):
            room.index_copy_(2, self.step, newest.unsqueeze(2))
        return KeyValue(*(room[:, :, :steps].flatten(2, 3) for room in self.room))

    def within(self, left: int | None) -> Bool[Tensor, "B 1 k slots"]:
        """`seen`, limited to `left` steps back: slots stay in place, and the window moves over them."""
        if left is None:
            return self.seen
        slots = torch.arange(self.seen.shape[3], device=self.seen.device)
        return self.seen & (slots // self.seen.shape[2] >= self.step - left)


@dataclass(frozen=True, eq=False)
class BeamCache:
    """All that decoding k beams per sentence must remember. Written in place, under `torch.no_grad()`.

    step   number of steps that have been written
    seen   which slots each beam descends from: (sentence, beam, step, slot)
    """

    room: Room
    step: Int[Tensor, " 1"]
    past: list[KeyValue]
    memory: list[KeyValue]
    keep: Bool[Tensor, "B S"]
    seen: Bool[Tensor, "B k R k"]
    itself: Bool[Tensor, "B k 1 k"]

    @classmethod
    def empty(cls, blocks: Iterable[DecoderBlock], room: Room) -> "BeamCache":
        """An empty cache for decoding with these blocks, on the device and in the precision of their weights."""
        blocks = list(blocks)
        sentences, beam, source, steps = room
        device = blocks[0].attention.input.weight.device
        return cls(
            room,
            step=torch.zeros(1, dtype=torch.int64, device=device),
            past=[empty_like(block.attention, (steps, beam), sentences) for block in blocks],
            memory=[empty_like(block.cross, (source,), sentences) for block in blocks],
            keep=torch.ones(sentences, source, dtype=torch.bool, device=device),
            seen=torch.zeros(sentences, beam, steps, beam, dtype=torch.bool, device=device),
            itself=torch.eye(beam, dtype=torch.bool, device=device)[:, None].repeat(sentences, 1, 1, 1),
        )

    def begin(self, start: DecoderCache) -> None:
        """Empty the cache and take over the memory of `start`, one row per sentence.

        Old keys and values are zeroed, although none of them may be seen: they have weight 0, but 0 times NaN is NaN.
        One search whose numbers are not finite would spoil all later ones.
        """
        self.step.zero_()
        self.seen.zero_()
        for tensor in chain(*self.past):
            tensor.zero_()
        if start.memory_layout.keep is None:
            self.keep.fill_(True)
        else:
            self.keep.copy_(start.memory_layout.keep)
        for here, given in zip(self.memory, start.memory, strict=True):
            here.k.copy_(given.k)
            here.v.copy_(given.v)

    def look(self, steps: int) -> list[BeamPast]:
        """The past of each block, limited to the first `steps` steps, which must include the one being written."""
        self.seen.index_copy_(2, self.step, self.itself)
        seen = self.seen[:, :, :steps].flatten(2)[:, None]
        return [BeamPast(room, self.step, seen) for room in self.past]

    def advance(self, origin: Int[Tensor, "B k"]) -> None:
        """End a step: each beam continues from what beam `origin` of its sentence has seen."""
        self.seen.copy_(self.seen.gather(1, origin[:, :, None, None].expand_as(self.seen)))
        self.step.add_(1)

    @property
    def layout(self) -> Padded:
        """The layout of the newest tokens. Beams are columns, all at the same position."""
        return Padded((self.room.sentences, self.room.beam), self.step.expand(self.room.beam), self.room.steps)

    @property
    def memory_layout(self) -> Padded:
        return Padded.like(self.keep, keep=self.keep)

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for pair in (*self.past, *self.memory) for x in pair) + self.seen.nbytes


def empty_like(attention: MultiHeadAttention, shape: tuple[int, ...], sentences: int) -> KeyValue:
    """Zeros, not uninitialised memory: see `BeamCache.begin`."""
    weight, widths = attention.input.weight, (attention.key_width, attention.value_width)
    return KeyValue(*(weight.new_zeros(sentences, attention.kv_heads, *shape, width) for width in widths))
