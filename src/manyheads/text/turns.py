"""Which pairs have a turn in which epoch, when some corpora are used more often than others.

A corpus of weight 2 is used twice per epoch. A corpus of weight 0.3 with n pairs is sorted by length and cut into 0.3n
places of neighbouring pairs, and each epoch takes the next pair of every place. The longest pair of a place counts as
the room that its turn takes, so the room is the same in every epoch.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int

__all__ = ["Numbers", "Turns", "Weighted", "generator"]

Numbers = Int[np.ndarray, " N"]
Weighted = tuple[int, float]
"""(pairs of a corpus, its weight)"""

LONGEST = (1 << 20) - 1


class Turns:
    """The turns of pairs.

    sources, targets   tokens of each pair, special ones included
    corpora            (pairs, weight) of each corpus, one corpus after the other; by default all pairs have weight 1
    """

    def __init__(
        self, sources: Numbers, targets: Numbers, seed: int, corpora: Sequence[Weighted] | None = None
    ) -> None:
        self.sources, self.targets, self.longest, self.seed = sources, targets, np.maximum(sources, targets), seed
        self.corpora = corpora or [(len(targets), 1.0)]
        self.vary = any(weight != 1 for _, weight in self.corpora)

    def of(self, epoch: int) -> tuple[Numbers, Numbers]:
        """(the pairs of an epoch, sorted by length; the room that each takes, which is the same in every epoch)"""
        if not self.vary:
            order = self.sorted_rows(epoch)
            return order, self.longest[order]
        turns = list(self.places(epoch))
        all_rows = np.concatenate([own[some] for own, some, _ in turns])
        all_room = np.concatenate([np.maximum.reduceat(self.longest[own], starts) for own, _, starts in turns])
        ties = generator(self.seed, epoch, "ties").random(len(all_rows), np.float32)
        mixed = np.lexsort((ties, self.targets[all_rows], all_room))
        return all_rows[mixed], all_room[mixed]

    def most(self) -> tuple[Numbers, Numbers]:
        """The most tokens that each turn may take on either side, whichever pair has it."""
        if not self.vary:
            return self.sources, self.targets
        turns = list(self.places(0))
        return tuple(  # type: ignore[return-value]
            np.concatenate([np.maximum.reduceat(side[own], starts) for own, _, starts in turns])
            for side in (self.sources, self.targets)
        )

    def places(self, epoch: int) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """For each corpus, once per use: its sorted pairs, which of them have a turn, and where their places start.

        Places are the same in every epoch.
        """
        order, start = self.sorted_rows(0), 0
        for number, (count, weight) in enumerate(self.corpora):
            own = order[(order >= start) & (order < start + count)]
            start += count
            for some, starts in weighted(own, weight, epoch, generator(self.seed, number, "weights")):
                yield own, some, starts

    def sorted_rows(self, epoch: int) -> Numbers:
        """Pairs sorted by length, then by target length, then at random, as one number each.

        The sort is stable, so the order is the same on every machine.
        """
        key = np.minimum(self.longest, LONGEST).astype(np.uint64) << np.uint64(44)
        key |= np.minimum(self.targets, LONGEST).astype(np.uint64) << np.uint64(24)
        key |= generator(self.seed, epoch, "ties").integers(0, 1 << 24, len(key), np.uint32)
        return np.argsort(key, kind="stable")


def generator(seed: int, number: int, purpose: str) -> np.random.Generator:
    """`number` is the number of an epoch or of a corpus."""
    stream = 4 * number + ("batches", "weights", "ties", "packs").index(purpose)
    return np.random.Generator(np.random.Philox(key=np.array([seed, stream], np.uint64)))


def weighted(own: Numbers, weight: float, epoch: int, random: np.random.Generator) -> list[tuple[Numbers, Numbers]]:
    """For each use, which of a corpus's sorted pairs have a turn, and where the pairs that may have it start."""
    count, times = len(own), int(weight)
    whole = np.arange(count)
    found = [(whole, whole)] * times
    if weight > times and count:
        places = max(1, round((weight - times) * count))
        bounds = np.arange(places + 1) * count // places
        first = random.integers(0, 1 << 31, places)  # each place starts at a pair of its own
        found.append((bounds[:-1] + (first + epoch) % np.diff(bounds), bounds[:-1]))
    return found
