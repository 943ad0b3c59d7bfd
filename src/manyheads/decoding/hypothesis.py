"""What a search returns, and how hypotheses are compared."""

from dataclasses import dataclass
from math import inf, isfinite

__all__ = ["NOTHING", "Hypothesis", "length_penalty"]


@dataclass(frozen=True)
class Hypothesis:
    """One output.

    ids                without begin and end
    log_probability    of the ids, and of the end if it was reached
    score              what hypotheses are compared by; in a search, log_probability over the length penalty
    finished           False if the limit on the length cut it off
    """

    ids: list[int]
    log_probability: float
    score: float
    finished: bool

    @property
    def finite(self) -> bool:
        return isfinite(self.score)


NOTHING = Hypothesis([], -inf, -inf, finished=False)
"""The result where a model's numbers are not finite, so that no continuation has a probability."""


def length_penalty(tokens: int, alpha: float) -> float:
    """((5 + n) / 6)^α of Wu et al. 2016: 1 for a single token, and for any number of tokens if α is 0."""
    return ((5 + tokens) / 6) ** alpha
