"""How long the sides are: in pieces, for training, and in characters, relative to each other."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from manyheads.checking.examiner import Verdicts
from manyheads.checking.sample import Sample
from manyheads.text.rows import Pair
from manyheads.text.vocabulary import Vocabulary, train_tokenizer

__all__ = ["Pieces", "Ratio"]

PIECES = 8_000
MOST = 100_000
LARGEST = 1 << 24
"""Pairs and characters, at most, from which pieces are learnt: more would hardly change them."""


class Pieces:
    """Finds pairs with a side of more than `limit` pieces, and counts how many pieces sides have.

    vocabulary   whose pieces are counted; without it, pieces are learnt from the corpus
    """

    finds = ("length",)

    def __init__(self, vocabulary: Vocabulary | None, limit: float) -> None:
        self.limit = limit
        self.sample = Sample(MOST, LARGEST) if vocabulary is None else None
        if vocabulary:
            self.vocabulary = vocabulary
        self.lengths: tuple[Counter[int], Counter[int]] = (Counter(), Counter())

    def learn(self, pairs: Sequence[Pair]) -> None:
        if self.sample:
            self.sample.add(pairs)

    def settle(self) -> None:
        if self.sample:
            texts = (text for pair in self.sample.pairs for text in pair)
            self.vocabulary, self.sample = Vocabulary(train_tokenizer("bpe", texts, PIECES)), None

    def judge(self, pairs: Sequence[Pair]) -> Verdicts:
        sources, targets = zip(*pairs, strict=True)
        encoded = [self.vocabulary.source.encode(sources), self.vocabulary.target.encode(targets)]
        for lengths, side in zip(self.lengths, encoded, strict=True):
            lengths.update(map(len, side))
        longest = np.maximum(*(np.fromiter(map(len, side), np.int64, len(pairs)) for side in encoded))
        return {"length": longest > self.limit}


class Ratio:
    """Finds pairs with a side `limit` times as long, in characters, as the other side suggests.

    What it suggests follows from the median of the corpus: English takes three characters where Chinese takes one. A
    dozen is added to both lengths, because short texts vary.
    """

    finds = ("ratio",)
    ADDED = 12
    BINS = 64
    """Per factor of two: the median is known to one percent."""

    def __init__(self, limit: float) -> None:
        self.limit, self.usual = limit, 1.0
        self.logs: Counter[int] = Counter()

    def learn(self, pairs: Sequence[Pair]) -> None:
        source, target = lengths_of(pairs)
        self.logs.update(np.round(self.BINS * np.log2(target / source)).astype(int).tolist())

    def settle(self) -> None:
        self.usual = 2.0 ** (middle(self.logs) / self.BINS)

    def judge(self, pairs: Sequence[Pair]) -> Verdicts:
        source, target = lengths_of(pairs)
        expected, found = source * self.usual + self.ADDED, target + self.ADDED
        return {"ratio": np.maximum(expected / found, found / expected) > self.limit}


def lengths_of(pairs: Sequence[Pair]) -> np.ndarray:
    return np.array([(len(source), len(target)) for source, target in pairs], float).T


def middle(counts: Counter[int], share: float = 0.5) -> int:
    """The smallest number such that at least this share of all numbers is not above it: by default, the median."""
    left = share * counts.total()
    for number in sorted(counts):
        left -= counts[number]
        if left <= 0:
            return number
    return 0
