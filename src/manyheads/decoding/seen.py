"""What can be seen while tokens are written at once: the lengths that are tried, what stands after every iteration, the graph that is read.

B sentences · K lengths of each that are tried · T words of a path · L vertices
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.mask_predict import Filled

__all__ = ["Graph", "Lengths", "Seen", "unseen"]


@dataclass(frozen=True, eq=False)
class Lengths:
    """The lengths that are tried, and how likely the model held each of them; where it was told how long a translation is, the
    likelihood is that of the length that it would have taken itself."""

    tokens: Int[Tensor, "B K"]
    log_probability: Float[Tensor, "B K"]


@dataclass(frozen=True, eq=False)
class Graph:
    """What a graph says, and how it was read.

    words             that the vertices like best; the first and the last vertex say nothing
    log_probability   of each of these
    links             log P that a path goes on from a vertex (a row) to another
    last              the last vertex
    by_length         log P of the best path of every number of words, from 1 on
    path              the vertices of the one that was taken; behind its end, the last vertex
    lengths           words that it has
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
    """Nobody looks."""
