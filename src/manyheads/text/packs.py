"""Packs: batches of one fixed size, filled with sentences in random order, as a function of (seed, epoch, step) alone.

Nothing is sorted by length, so a pack is a fair sample of the corpus; and only the last few places of a pack are
padding. The sizes of a pack's sides are in proportion to the tokens on each side of the corpus, so that both are nearly
full.

Every epoch has the same number of packs, a few more than the first orders take. If an order of the pairs takes fewer,
the packs with most pairs are halved; if it takes more, another order is drawn.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from manyheads.errors import InputError
from manyheads.text.turns import Numbers, Turns, Weighted, generator

__all__ = ["PackPlan", "Room"]

ALIGNED = 64
"""Sizes are multiples of this, so that the tiles of a GPU's matrix units are full."""

SLACK = 400
"""One spare pack for this many, so that another order hardly ever has to be drawn."""

FIRST, TRIES = 8, 50
"""Orders from which the number of packs is derived, and orders that are drawn before an epoch is given up."""


class Room(NamedTuple):
    """What fits into a pack."""

    source: int
    target: int
    pairs: int


class PackPlan:
    """Which pairs are in which pack.

    sources, targets   tokens of each pair, special ones included
    tokens             tokens on the longer side of a batch
    corpora            as in `Turns`
    parts              packs per batch, computed one after the other
    """

    def __init__(
        self, sources: Numbers, targets: Numbers, tokens: int, seed: int,
        corpora: Sequence[Weighted] | None = None, parts: int = 1,
    ) -> None:  # fmt: skip
        self.sources, self.targets, self.seed = sources, targets, seed
        self.turns = Turns(sources, targets, seed, corpora)
        longest = int(sources.max(initial=1)), int(targets.max(initial=1))
        self.parts = max(1, min(parts, tokens // max(longest)))  # each has room for any sentence
        most = self.turns.most()
        self.room = room_for(*most, -(-tokens // self.parts), longest)
        packs = max(len(cuts) - 1 for cuts in islice(self.first_cuts(*most), FIRST))
        self.packs = min(len(most[0]), packs + packs // SLACK)
        self.batches = -(-self.packs // self.parts)  # in an epoch
        self.drawn = (0, *self.epoch(0))

    def rows(self, step: int) -> list[Numbers]:
        """The pairs of each pack of a step; steps count from 0.

        In the last step of an epoch, some packs may have none.
        """
        epoch, place = divmod(step, self.batches)
        if self.drawn[0] != epoch:
            self.drawn = (epoch, *self.epoch(epoch))
        _, order, cuts = self.drawn
        packs = range(place * self.parts, (place + 1) * self.parts)
        return [order[cuts[n] : cuts[n + 1]] if n < self.packs else order[:0] for n in packs]

    def epoch(self, epoch: int) -> tuple[Numbers, Numbers]:
        """(the pairs in a random order, the places where it is cut into packs)"""
        for order, cuts in islice(self.draws(epoch), TRIES):
            if len(cuts) - 1 <= self.packs:
                return order, halved(cuts, self.packs)
        raise InputError(
            f"sentences could not be packed into {self.packs:,} batches of {self.room.source:,} and {self.room.target:,} tokens",
            hint="choose another train.tokens",
        )

    def first_cuts(self, sources: Numbers, targets: Numbers) -> Iterator[Numbers]:
        """The cuts of random orders that tell how many packs there are.

        If corpora are weighted, so that the pairs vary from epoch to epoch, each turn counts as the longest pair that
        may take it.
        """
        if not self.turns.vary:
            yield from (cuts for _, cuts in self.draws(0))
        random, places = generator(self.seed, 0, "packs"), np.arange(len(sources))
        while True:
            random.shuffle(places)
            yield fill(sources[places], targets[places], self.room)

    def draws(self, epoch: int) -> Iterator[tuple[Numbers, Numbers]]:
        """Random orders of an epoch's pairs, without end, each with the places where it is cut."""
        random = generator(self.seed, epoch, "packs")
        rows = self.turns.of(epoch)[0].astype(np.int32)
        while True:
            random.shuffle(rows)
            yield rows.copy(), fill(self.sources[rows], self.targets[rows], self.room)


def room_for(sources: Numbers, targets: Numbers, tokens: int, longest: tuple[int, int]) -> Room:
    """The side with more tokens has room for `tokens`, and both sides have room for the longest sentence."""
    totals = int(sources.sum()), int(targets.sum())
    most = max(1, *totals)
    # Share the tokens out evenly among the packs they take, so that an epoch's last pack is as full as the others.
    tokens = min(tokens, int(1.005 * most / -(-most // tokens) + most / max(1, len(sources))))
    source, target = (
        max(aligned(min(total, tokens * total / most)), aligned(room))
        for total, room in zip(totals, longest, strict=True)
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
    """Cut the stretches with most pairs in two until there are `packs` of them."""
    while len(cuts) - 1 < packs:
        longest = int(np.diff(cuts).argmax())
        cuts = np.insert(cuts, longest + 1, (cuts[longest] + cuts[longest + 1]) // 2)
    return cuts
