"""Some pairs of a corpus whose size nobody knows yet."""

from collections.abc import Sequence

from manyheads.text.rows import Pair

__all__ = ["Sample"]


class Sample:
    """Every so many pairs, from all over the corpus, at most `most` of them; the same of the same corpus."""

    def __init__(self, most: int) -> None:
        self.most, self.stride, self.seen = most, 1, 0
        self.pairs: list[Pair] = []

    def add(self, pairs: Sequence[Pair]) -> None:
        self.pairs += pairs[-self.seen % self.stride :: self.stride]
        self.seen += len(pairs)
        while len(self.pairs) > self.most:
            self.pairs, self.stride = self.pairs[::2], 2 * self.stride
