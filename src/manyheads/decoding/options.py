"""How to search: every number is checked, and none is without a bound."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from manyheads.sections import Section, between

__all__ = ["Search"]

MOST_HYPOTHESES = 10_000

OF_SAMPLES = ("temperature", "top_k", "top_p")
"""Options that only samples have."""


@dataclass(frozen=True)
class Search(Section):
    """How to search.

    beam             hypotheses kept at each step; 1 = greedy
    length_penalty   the exponent α: a hypothesis of n tokens is scored by log P / ((5 + n) / 6)^α
    n_best           alternatives returned for each line
    sample           draw tokens at random
    temperature      of the draws: below 1, likely tokens become likelier
    top_k            draw among the k likeliest tokens; 0 = all
    top_p            draw among the likeliest tokens that together have this probability
    seed             of the draws
    max_ratio        a translation has at most max_ratio × source pieces + max_extra pieces
    max_extra
    min_length       the fewest pieces of an output, its end counted
    max_length       the most pieces of an output, its end counted; 0 = no other limit than the one above
    no_repeat        no sequence of this many pieces occurs twice in an output; 0 = no such rule
    diversity        the price of a word that another of the n_best has at the same place; 0 = none
    alternatives     outputs returned for each line, each with a different token after the prefix; 0 = as n_best says
    batch            lines computed together; by default, a Translator on a GPU takes more
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
    min_length: int = between(0, 1_000_000, default=0)
    max_length: int = between(0, 1_000_000, default=0)
    no_repeat: int = between(0, 1_000, default=0)
    diversity: float = between(0, 1_000, default=0.0)
    alternatives: int = between(0, 1_000, default=0)
    batch: int = between(1, 65_536, default=64)

    def rules(self) -> Iterator[str]:
        if self.sample and self.beam > 1:
            yield f"sampling draws one hypothesis at a time, got beam {self.beam}: set beam to 1"
        elif self.sample and self.n_best > 1:
            yield f"sampling returns one output per line, got n_best {self.n_best}: use another seed to draw another"
        elif self.n_best > self.beam:
            yield f"n_best needs a beam at least as large, got {self.n_best} and a beam of {self.beam}"
        for name in OF_SAMPLES:
            if not self.sample and getattr(self, name) != getattr(Search, name):  # its default
                yield f"{name} needs sample (--sample), got {getattr(self, name)} without it"
        yield from self.rules_of_control()

    def rules_of_control(self) -> Iterator[str]:
        if self.sample and (self.diversity or self.alternatives):
            yield "diversity and alternatives need a beam search, not samples: leave out sample"
        elif self.alternatives and (self.n_best > 1 or self.diversity):
            yield "alternatives sets how many outputs there are and how they differ: leave out n_best and diversity"
        elif self.diversity and self.n_best == 1:
            yield "diversity needs several outputs per line: set n_best to 2 or more"
        if (self.alternatives or self.diversity) and self.beam * self.outputs > MOST_HYPOTHESES:
            yield (
                f"{self.outputs} outputs, each with a search of its own, may have at most {MOST_HYPOTHESES:,} hypotheses in all, "
                f"got a beam of {self.beam}"
            )
        if 0 < self.max_length < self.min_length:
            yield f"min_length must be at most max_length, got {self.min_length} and {self.max_length}"

    @property
    def outputs(self) -> int:
        """How many translations are returned for each line."""
        return self.alternatives or self.n_best

    @property
    def guided(self) -> bool:
        """True if it asks for more than the likeliest output, or a draw, within a limit."""
        return bool(self.min_length or self.no_repeat or self.diversity or self.alternatives)

    def limit(self, source: int, longest: int) -> int:
        """Tokens that the translation of `source` tokens may have."""
        most = ceil(self.max_ratio * source) + self.max_extra
        most = min(most, self.max_length or most)
        return max(1, min(longest, max(most, self.min_length)))
