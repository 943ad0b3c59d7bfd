"""Batches within a token budget, of sentences of similar length, as a function of (seed, epoch, step) alone.

Sentences are sorted by length, ties in an order drawn for the epoch, and cut into batches, which come in random order.
The cuts follow from the lengths, so every epoch has the same number of batches, and step n is batch n modulo that
number: the step is all that must be remembered to resume a run.
"""

from collections.abc import Sequence

import numpy as np

from manyheads.text.turns import Numbers, Turns, Weighted, generator

__all__ = ["BatchPlan"]


class BatchPlan:
    """Which pairs are in which batch.

    sources, targets   tokens of each pair, special ones included
    tokens             most tokens on either side of a batch, padding included (a longer sentence is a batch of its own)
    corpora            (pairs, weight) of each corpus, one corpus after the other; by default all pairs have weight 1
    """

    def __init__(
        self, sources: Numbers, targets: Numbers, tokens: int, seed: int, corpora: Sequence[Weighted] | None = None
    ) -> None:
        self.turns, self.seed = Turns(sources, targets, seed, corpora), seed
        self.cuts = cut(self.turns.of(0)[1], tokens)
        self.batches = len(self.cuts) - 1  # in an epoch
        self.drawn: tuple[int, Numbers, Numbers] | None = None

    def rows(self, step: int) -> Numbers:
        """The pairs of a step; steps count from 0."""
        epoch, place = divmod(step, self.batches)
        if self.drawn is None or self.drawn[0] != epoch:
            self.drawn = None  # free the last epoch first, to make room for this one
            order = self.turns.of(epoch)[0].astype(np.int32)
            self.drawn = (epoch, order, generator(self.seed, epoch, "batches").permutation(self.batches))
        _, order, turn = self.drawn
        return order[self.cuts[turn[place]] : self.cuts[turn[place] + 1]]


def cut(longest: Numbers, tokens: int) -> Numbers:
    """Where to cut sentences, sorted by length, so that rows × longest stays within the budget."""
    cuts = [0]
    while (start := cuts[-1]) < len(longest):
        some = longest[start : start + max(1, tokens // int(longest[start]))]
        rows = np.count_nonzero(some * np.arange(1, len(some) + 1) <= tokens)
        cuts.append(start + max(1, int(rows)))
    return np.array(cuts)
