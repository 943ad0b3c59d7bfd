"""A sample of a corpus whose size is not known in advance."""

from collections.abc import Sequence

from manyheads.text.rows import Pair

__all__ = ["Sample"]


class Sample:
    """Evenly spaced pairs from the entire corpus, at most `most` of them; the same corpus gives the same sample.

    largest   characters of all pairs together, at most: a pair may have two million. One pair is held in any case
    """

    def __init__(self, most: int, largest: int) -> None:
        self.most, self.largest = most, largest
        self.stride, self.seen, self.size = 1, 0, 0
        self.pairs: list[Pair] = []

    def add(self, pairs: Sequence[Pair]) -> None:
        chosen = pairs[-self.seen % self.stride :: self.stride]
        self.pairs += chosen
        self.seen += len(pairs)
        self.size += characters(chosen)
        while len(self.pairs) > self.most or (self.size > self.largest and len(self.pairs) > 1):
            self.pairs, self.stride = self.pairs[::2], 2 * self.stride
            self.size = characters(self.pairs)


def characters(pairs: Sequence[Pair]) -> int:
    return sum(len(source) + len(target) for source, target in pairs)
