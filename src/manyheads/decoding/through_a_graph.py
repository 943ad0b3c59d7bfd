"""The likeliest path through a graph.

B sentences · K lengths tried for each · S source tokens · T words · L vertices
"""

from math import isfinite
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.decoding.hypothesis import Hypothesis, length_penalty
from manyheads.decoding.mask_predict import likeliest
from manyheads.decoding.seen import Graph, Seen, unseen
from manyheads.decoding.way import AtOnce, Way, first_word, places_for, ranked, rows_in, shape_of
from manyheads.models.parallel import ParallelTransformer, lengths_of
from manyheads.nn import Memory, Padded
from manyheads.nn.paths import best_ways, into, trace_back

__all__ = ["ThroughAGraph", "graph_states"]


class ThroughAGraph(Way):
    """Take the likeliest path, on which every vertex says its likeliest word.

    If more than one candidate is requested, take the best paths of other lengths, too.
    """

    class Computed(NamedTuple):
        words: Int[Tensor, "B K T"]
        lengths: Int[Tensor, "B K"]
        log_probability: Float[Tensor, "B K"]
        finished: Bool[Tensor, "B K"]

    def compute(
        self, model: ParallelTransformer, source: Int[Tensor, "B S"], room: int | None = None, seen: Seen = unseen
    ) -> Computed:
        assert model.link is not None
        memory = model.encode(source)
        last = places_for(lengths_of(memory.layout), shape_of(model).places, self.longest - 2) + 1
        states = graph_states(model, memory, last, room)
        words, says = likeliest(model, states, first_word(model))
        links = model.link(states, last)
        scores = best_ways(says[:, None].expand(-1, states.shape[1] - 2, -1), links, last)
        by_length = (scores + into(links, last)[:, None]).amax(-1)  # log P of the best path of each number of words
        wished, lengths = best_lengths(by_length, self.how)
        paths = trace_all_back(scores, links, lengths, last)
        seen(Graph(words, says, links, last, by_length, paths[:, 0], lengths[:, 0]))
        spelt = words[:, None].expand(-1, paths.shape[1], -1).gather(2, paths)
        return self.Computed(spelt, lengths, by_length.gather(1, lengths - 1), wished == lengths)

    def read(self, computed: Computed) -> list[list[Hypothesis]]:
        return [
            ranked(
                Hypothesis(ids[:n], log_p, log_p / length_penalty(n, self.how.length_penalty), finished)
                for ids, n, log_p, finished in zip(*row, strict=True)
                if isfinite(log_p)
            )
            for row in rows_in(computed)
        ]


def graph_states(
    model: ParallelTransformer, memory: Memory, last: Int[Tensor, " B"], vertices: int | None = None
) -> Float[Tensor, "B L D"]:
    """The states of the vertices, about whose words nothing is known yet."""
    vertices = vertices or int(last.max()) + 1
    places = torch.arange(vertices, device=last.device)
    layout = Padded((len(last), vertices), places, vertices, places <= last[:, None])
    masks = torch.full(layout.shape, model.mask, device=last.device)
    return model.states(masks, memory, layout)


def trace_all_back(
    scores: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], lengths: Int[Tensor, "B K"], last: Int[Tensor, " B"]
) -> Int[Tensor, "B K T"]:
    """The best path of each of these lengths."""
    if (paths := lengths.shape[1]) > 1:
        scores, links, last = (x.repeat_interleave(paths, 0) for x in (scores, links, last))
    return trace_back(scores, links, lengths.flatten(), last).unflatten(0, lengths.shape)


def best_lengths(by_length: Float[Tensor, "B T"], how: AtOnce) -> tuple[Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """(words wished for, words of the paths that are taken), the best first.

    A path has as many words as are wished for, as far as there are vertices.
    """
    counts = torch.arange(1, by_length.shape[1] + 1, device=by_length.device)
    scores = by_length / ((5 + counts) / 6) ** how.length_penalty
    if not how.wishes:
        best = scores.topk(min(how.lengths, scores.shape[1])).indices + 1
        return best, best
    there = (by_length > -torch.inf).sum(-1, keepdim=True).clamp(min=1)
    wished = how.wished(scores.argmax(-1, keepdim=True) + 1)
    return wished, torch.minimum(wished, there)
