"""Batches of a token budget, of sentences of about one length, as a function of (seed, epoch, step) alone.

Sentences are sorted by length, ties in an order drawn for the epoch; cut into batches; and the batches are drawn in
random order. The cuts follow from the lengths, so every epoch has as many batches, and step n is batch n mod that many:
nothing but the step must be remembered to go on where a run stopped.
"""

import numpy as np
from jaxtyping import Int

__all__ = ["BatchPlan"]

Numbers = Int[np.ndarray, " N"]


class BatchPlan:
    """Which pairs are in which batch.

    sources, targets   tokens of each pair, the special ones included
    tokens             of either side of a batch, padding included, at most (a longer sentence is a batch of its own)
    """

    def __init__(self, sources: Numbers, targets: Numbers, tokens: int, seed: int) -> None:
        self.targets, self.longest, self.seed = targets, np.maximum(sources, targets), seed
        self.cuts = cut(np.sort(self.longest), tokens)
        self.batches = len(self.cuts) - 1  # in an epoch
        self.drawn: tuple[int, Numbers, Numbers] | None = None

    def rows(self, step: int) -> Numbers:
        """The pairs of a step, counted from 0."""
        epoch, place = divmod(step, self.batches)
        if self.drawn is None or self.drawn[0] != epoch:
            self.drawn = (epoch, *self.draw(epoch))
        _, order, turn = self.drawn
        return order[self.cuts[turn[place]] : self.cuts[turn[place] + 1]]

    def draw(self, epoch: int) -> tuple[Numbers, Numbers]:
        """(pairs in the order of the cuts, batches in the order of their turn)"""
        random = np.random.Generator(np.random.Philox(key=np.array([self.seed, epoch], np.uint64)))
        shuffled = random.permutation(len(self.longest))
        by_length = np.lexsort((self.targets[shuffled], self.longest[shuffled]))
        return shuffled[by_length], random.permutation(self.batches)


def cut(longest: Numbers, tokens: int) -> Numbers:
    """Where to cut sentences, sorted by length, so that rows × longest stays within the budget."""
    cuts = [0]
    while (start := cuts[-1]) < len(longest):
        some = longest[start : start + max(1, tokens // int(longest[start]))]
        rows = np.count_nonzero(some * np.arange(1, len(some) + 1) <= tokens)
        cuts.append(start + max(1, int(rows)))
    return np.array(cuts)
