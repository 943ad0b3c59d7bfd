"""Some pairs of a corpus whose size nobody knows yet."""

from collections.abc import Sequence

from manyheads.text.rows import Pair

__all__ = ["Sample"]


class Sample:
    """Every so many pairs, from all over the corpus, at most `most` of them; the same of the same corpus.

    largest   characters at most, of all of them together: a pair may have two million. One pair is held in any case
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
