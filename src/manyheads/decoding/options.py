"""How to search: every number checked, none without a bound."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from manyheads.sections import Section, between

__all__ = ["Search"]

MOST_HYPOTHESES = 10_000


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
    min_length       pieces that an output has at least, its end counted
    max_length       pieces that it has at most, its end counted; 0 = no other bound than the one above
    no_repeat        no sequence of so many pieces twice in an output; 0 = no such rule
    diversity        the price of a word that another of the n_best has at the same place; 0 = they differ as they may
    alternatives     outputs given back for each line, that each go on by another token after the prefix; 0 = as n_best says
    batch            lines computed together; a Translator on a GPU takes more, unless it is told
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
            yield f"sampling goes one hypothesis at a time, got beam {self.beam}: set beam to 1"
        elif self.sample and self.n_best > 1:
            yield f"a sample is one a line, got n_best {self.n_best}: another seed draws another"
        elif self.n_best > self.beam:
            yield f"n_best needs a beam at least as large, got {self.n_best} and a beam of {self.beam}"
        drawn = (self.temperature, self.top_k, self.top_p) != (1.0, 0, 1.0)
        if drawn and not self.sample:
            yield "temperature, top_k and top_p are for draws, got one of them without sample (--sample)"
        yield from self.rules_of_control()

    def rules_of_control(self) -> Iterator[str]:
        if self.sample and (self.diversity or self.alternatives):
            yield "diversity and alternatives are found by a search, not by draws: leave out sample"
        elif self.alternatives and (self.n_best > 1 or self.diversity):
            yield "alternatives are as many as they say and differ as they do: leave out n_best and diversity"
        elif self.diversity and self.n_best == 1:
            yield "diversity is between several outputs of a line: set n_best to 2 or more"
        if (self.alternatives or self.diversity) and self.beam * self.outputs > MOST_HYPOTHESES:
            yield (
                f"each of {self.outputs} outputs has a search of its own, with {MOST_HYPOTHESES:,} hypotheses for all of them "
                f"at most, got a beam of {self.beam}"
            )
        if 0 < self.max_length < self.min_length:
            yield f"min_length must be at most max_length, got {self.min_length} and {self.max_length}"

    @property
    def outputs(self) -> int:
        """How many are given back for each line."""
        return self.alternatives or self.n_best

    @property
    def guided(self) -> bool:
        """Does it ask for more than the likeliest, or a draw, within a bound?"""
        return bool(self.min_length or self.no_repeat or self.diversity or self.alternatives)

    def limit(self, source: int, longest: int) -> int:
        """Tokens that the translation of `source` tokens may have."""
        most = ceil(self.max_ratio * source) + self.max_extra
        most = min(most, self.max_length or most)
        return max(1, min(longest, max(most, self.min_length)))
