"""What an observer sees while tokens are written at once: the lengths tried, each iteration, the graph that is read.

B sentences · K lengths tried for each · T words of a path · L vertices
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.mask_predict import Filled

__all__ = ["Graph", "Lengths", "Seen", "unseen"]


@dataclass(frozen=True, eq=False)
class Lengths:
    """The lengths that are tried, and how likely the model considers each.

    If the length of the translation was given, the probability is that of the length the model would have chosen.
    """

    tokens: Int[Tensor, "B K"]
    log_probability: Float[Tensor, "B K"]


@dataclass(frozen=True, eq=False)
class Graph:
    """What a graph says, and how it was read.

    words             the likeliest word of each vertex; the first and the last vertex say nothing
    log_probability   of each of these words
    links             log P that a path goes from one vertex (row) to another (column)
    last              the last vertex
    by_length         log P of the best path of each number of words, from 1 on
    path              the vertices of the chosen path; after its end, the last vertex
    lengths           the number of words on that path
    """

    words: Int[Tensor, "B L"]
    log_probability: Float[Tensor, "B L"]
    links: Float[Tensor, "B L L"]
    last: Int[Tensor, " B"]
    by_length: Float[Tensor, "B T"]
    path: Int[Tensor, "B T"]
    lengths: Int[Tensor, " B"]


Seen = Callable[[Filled | Lengths | Graph], None]


def unseen(_: object) -> None:
    """The observer that ignores what it is shown."""
