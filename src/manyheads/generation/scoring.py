"""How surprised a language model is by a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

__all__ = ["TextScore", "bits_per_byte"]


@dataclass(frozen=True)
class TextScore:
    """
    log_probability   of a text and its end, natural logarithm
    tokens            its end counted
    bytes             of it in UTF-8, its end counted as one: the newline that it is in a file
    truncated         it is longer than the model reads: all of this is of its beginning
    """

    log_probability: float
    tokens: int
    bytes: int
    truncated: bool = False


def bits_per_byte(scores: Sequence[TextScore]) -> float:
    """How many bits a byte takes if the model is used to compress. Unlike perplexity, models with other pieces can be compared by it."""
    return -sum(one.log_probability for one in scores) / log(2) / max(1, sum(one.bytes for one in scores))
