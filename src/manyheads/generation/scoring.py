"""How much a text surprises a language model."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

__all__ = ["TextScore", "bits_per_byte"]


@dataclass(frozen=True)
class TextScore:
    """The score of one text.

    log_probability   of the text and its end, natural logarithm
    tokens            including its end
    bytes             in UTF-8, with one for its end: the newline that it is in a file
    truncated         the text is longer than the model reads: the score is that of its beginning
    """

    log_probability: float
    tokens: int
    bytes: int
    truncated: bool = False


def bits_per_byte(scores: Sequence[TextScore]) -> float:
    """The bits that a byte takes if the model is used to compress.

    Unlike perplexity, it allows models with different pieces to be compared.
    """
    return -sum(one.log_probability for one in scores) / log(2) / max(1, sum(one.bytes for one in scores))
