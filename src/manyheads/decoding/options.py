"""How to search: every number checked, none without a bound."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from manyheads.sections import Section, between

__all__ = ["Search"]


@dataclass(frozen=True)
class Search(Section):
    """
    beam             hypotheses kept at each step; 1 = greedy
    length_penalty   the exponent α: a hypothesis of n tokens is scored by log P / ((5 + n) / 6)^α
    n_best           alternatives given back for each line
    sample           draw tokens at random
    temperature      of the draws: below 1 the likely becomes likelier
    top_k            draw among the k likeliest tokens; 0 = all
    top_p            draw among the likeliest tokens that together have this probability
    seed             of the draws
    max_ratio        a translation has at most max_ratio × source pieces + max_extra pieces
    max_extra
    batch            lines computed together
    """

    beam: int = between(1, 1_000, default=4)
    length_penalty: float = between(0, 10, default=0.6)
    n_best: int = between(1, 1_000, default=1)
    sample: bool = False
    temperature: float = between(0.01, 100, default=1.0)
    top_k: int = between(0, 16_777_216, default=0)
    top_p: float = between(0.0001, 1, default=1.0)
    seed: int = between(0, 2**32 - 1, default=1)
    max_ratio: float = between(0, 1_000, default=2.0)
    max_extra: int = between(1, 1_000_000, default=20)
    batch: int = between(1, 65_536, default=64)

    def rules(self) -> Iterator[str]:
        if self.sample and self.beam > 1:
            yield f"sampling goes one hypothesis at a time, got beam {self.beam}: set beam to 1"
        elif self.sample and self.n_best > 1:
            yield f"a sample is one a line, got n_best {self.n_best}: another seed draws another"
        elif self.n_best > self.beam:
            yield f"n_best needs a beam at least as large, got {self.n_best} and a beam of {self.beam}"
        drawn = (self.temperature, self.top_k, self.top_p) != (1.0, 0, 1.0)
        if drawn and not self.sample:
            yield "temperature, top_k and top_p are for sampling: set sample"

    def limit(self, source: int, longest: int) -> int:
        """Tokens that the translation of `source` tokens may have."""
        return max(1, min(longest, ceil(self.max_ratio * source) + self.max_extra))
