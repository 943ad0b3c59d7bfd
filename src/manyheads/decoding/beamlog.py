"""A log of a beam search: every continuation that was considered, and what became of it.

    log = BeamLog(alpha=0.6)
    beam_search(model, source, limits, beam=4, alpha=0.6, follow=log.watch(continuations))
    log.nodes()

The search is the ordinary one. It asks a `follow` for the best continuations of each step; the log wraps a `follow` and
notes its answers. A search without a log pays nothing for it.

k beam · c continuations · W words
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.beam import Candidates, Follow
from manyheads.decoding.hypothesis import length_penalty
from manyheads.errors import OptionError
from manyheads.text.tokenizer import END

__all__ = ["FINISHED", "KEPT", "LEFT", "PRUNED", "BeamLog", "Node", "path_of"]

KEPT, FINISHED, PRUNED, LEFT = "kept", "finished", "pruned", "left"
"""It stayed in the beam; it ended; others were better; it was still in the beam when the search stopped."""


@dataclass(frozen=True)
class Node:
    """A token written after the node `parent` (None: at the beginning). A log is a list in which parents come first.

    rank               among the continuations of its step; the best is 0
    log_probability    of this token
    total              log-probability of all tokens up to and including it
    score              total over the length penalty: what hypotheses are compared by
    """

    parent: int | None
    step: int
    rank: int
    id: int
    log_probability: float
    total: float
    score: float
    status: str


class Step(NamedTuple):
    beam: int
    totals: list[float]
    origins: list[int]
    words: list[int]
    gains: list[float]


class BeamLog:
    """The log of one sentence."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.steps: list[Step] = []

    def watch(self, follow: Follow) -> Follow:
        """Return a `follow` that gives the answers of the given one, and notes them."""

        def noted(
            scores: Float[Tensor, "B k"], log_p: Float[Tensor, "Bk W"], rows: list[int], written: Int[Tensor, "Bk T"]
        ) -> Candidates:
            if len(rows) > 1:
                raise OptionError(f"a beam log holds one sentence, got {len(rows)}")
            totals, origins, words = found = follow(scores, log_p, rows, written)
            gains = log_p[origins[0], words[0]]
            self.steps.append(
                Step(scores.shape[1], *(one.tolist() for one in (totals[0], origins[0], words[0], gains)))
            )
            return found

        return noted

    def nodes(self) -> list[Node]:
        """Every continuation that was considered, step by step, the best first."""
        found: list[Node] = []
        row_nodes: list[int | None] = [None]  # the last node of each beam; None while nothing is written
        for number, step in enumerate(self.steps):
            rows: list[int | None] = []
            over = number + 1 == len(self.steps)
            for rank, (total, origin, word, gain) in enumerate(zip(*step[1:], strict=True)):
                goes_on = word != END and len(rows) < step.beam
                if goes_on:
                    rows.append(len(found) if total > -inf else None)
                if total == -inf:
                    continue  # it has no probability and only fills a place
                ends = word == END and rank < step.beam
                status = FINISHED if ends else PRUNED if not goes_on else LEFT if over else KEPT
                score = total / length_penalty(number + 1, self.alpha)
                found.append(Node(row_nodes[origin], number, rank, word, gain, total, score, status))
            row_nodes = rows
        return found


def path_of(nodes: Sequence[Node], last: int) -> list[int]:
    """The indices of the nodes that lead to `last`, itself included."""
    path = [last]
    while (parent := nodes[path[-1]].parent) is not None:
        path.append(parent)
    return path[::-1]
