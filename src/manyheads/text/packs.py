"""Packs: batches of one fixed size, sentence after sentence in random order, as a function of (seed, epoch, step) alone.

Nothing is sorted by length, so a pack is a fair sample of the corpus; and nothing is padded but the last few places. The
sides of a pack have sizes in the proportion in which the sides of the corpus have tokens: then both are nearly full.

Every epoch has as many packs as the first. If an order of the pairs takes more, another one is drawn; if it takes less,
the fullest packs are halved.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manyheads.text.turns import Numbers, Turns, Weighted, generator

__all__ = ["PackPlan", "Room"]

ALIGNED = 64
"""Sizes are multiples of this: tiles of a GPU's matrix units are full."""

SLACK = 400
"""One pack in so many more than the first epoch takes: hardly ever must an order be drawn again."""

TRIES = 50


class Room(NamedTuple):
    """What fits into a pack."""

    source: int
    target: int
    pairs: int


class PackPlan:
    """Which pairs are in which pack.

    sources, targets   tokens of each pair, the special ones included
    tokens             of the longer side of a batch
    corpora            as in `Turns`
    parts              packs that a batch is made of, computed one after the other
    """

    def __init__(
        self, sources: Numbers, targets: Numbers, tokens: int, seed: int,
        corpora: Sequence[Weighted] | None = None, parts: int = 1,
    ) -> None:  # fmt: skip
        self.sources, self.targets, self.seed, self.parts = sources, targets, seed, parts
        self.turns = Turns(sources, targets, seed, corpora)
        self.room = room_for(sources, targets, -(-tokens // parts))
        self.first = self.draw(0)
        packs = len(self.first[1]) - 1
        self.packs = min(len(self.first[0]), packs + packs // SLACK)
        self.first = self.first[0], halved(self.first[1], self.packs)
        self.batches = -(-self.packs // parts)  # in an epoch
        self.drawn = (0, *self.first)

    def rows(self, step: int) -> list[Numbers]:
        """The pairs of each pack of a step, counted from 0. The last step of an epoch may have packs without any."""
        epoch, place = divmod(step, self.batches)
        if self.drawn[0] != epoch:
            self.drawn = (epoch, *self.epoch(epoch))
        _, order, cuts = self.drawn
        packs = range(place * self.parts, (place + 1) * self.parts)
        return [order[cuts[n] : cuts[n + 1]] if n < self.packs else order[:0] for n in packs]

    def epoch(self, epoch: int) -> tuple[Numbers, Numbers]:
        """(the pairs in a random order, where it is cut)"""
        for attempt in range(TRIES):
            order, cuts = self.draw(epoch, attempt)
            if len(cuts) - 1 <= self.packs:
                return order, halved(cuts, self.packs)
        return self.first

    def draw(self, epoch: int, attempt: int = 0) -> tuple[Numbers, Numbers]:
        random = generator(self.seed, epoch, "packs")
        rows = self.turns.of(epoch)[0].astype(np.int32)
        for _ in range(attempt + 1):
            random.shuffle(rows)
        return rows, fill(self.sources[rows], self.targets[rows], self.room)


def room_for(sources: Numbers, targets: Numbers, tokens: int) -> Room:
    """The side of which there is more has room for `tokens`, and for the longest sentence in any case."""
    totals = int(sources.sum()), int(targets.sum())
    most = max(1, *totals)
    source, target = (
        min(aligned(total), max(aligned(tokens * total / most), aligned(int(lengths.max(initial=1)))))
        for total, lengths in zip(totals, (sources, targets), strict=True)
    )
    pairs = min(len(sources), 8 + int(1.2 * len(sources) * max(source, target) / most))
    return Room(source, target, max(1, pairs))


def aligned(tokens: float) -> int:
    return ALIGNED * max(1, int(-(-tokens // ALIGNED)))


def fill(sources: Numbers, targets: Numbers, room: Room) -> Numbers:
    """Where to cut pairs so that each stretch is as long as the room allows."""
    ends = [np.concatenate([[0], np.cumsum(side, dtype=np.int64)]) for side in (sources, targets)]
    cuts = [0]
    while (start := cuts[-1]) < len(sources):
        fits = [np.searchsorted(end, end[start] + size, "right") - 1 for end, size in zip(ends, room[:2], strict=True)]
        cuts.append(max(start + 1, min(*fits, start + room.pairs)))
    return np.array(cuts)


def halved(cuts: Numbers, packs: int) -> Numbers:
    """As many stretches as asked for: those with most pairs are cut in two."""
    while len(cuts) - 1 < packs:
        longest = int(np.diff(cuts).argmax())
        cuts = np.insert(cuts, longest + 1, (cuts[longest] + cuts[longest + 1]) // 2)
    return cuts
