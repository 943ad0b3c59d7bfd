"""All tokens of a translation at once: what stands in the place of a search where a model writes in parallel.

    mask    for each of the likeliest lengths, places that are filled in again and again; the surest of them is taken
    end     places enough for any translation, filled in again and again, cut at the first end
    graph   the likeliest path through a graph

B sentences · K lengths of each that are tried · S source tokens · L vertices
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.hypothesis import NOTHING, Hypothesis, length_penalty
from manyheads.decoding.mask_predict import Filled, fill_in
from manyheads.models.parallel import ParallelTransformer, lengths_of, likely_lengths
from manyheads.nn import Memory, Padded
from manyheads.nn.paths import best_ways, into, trace_back
from manyheads.sections import between
from manyheads.settings import RefineConfig
from manyheads.text.tokenizer import BEGIN, END, PADDING

__all__ = ["AtOnce", "Graph", "Lengths", "banned", "write_at_once"]

SPECIAL = (PADDING, BEGIN)
LONGEST = 1 << 20
"""Words that may be wished for: more than there ever are."""


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
"""Is shown the lengths that are tried, what stands after every iteration, or the graph that is read."""


@dataclass(frozen=True)
class AtOnce(RefineConfig):
    """What a recipe says of it, and what is said for one translation:

    length           tokens that a translation has; 0 = as many as the model likes
    stretch          times as many tokens as the model likes
    batch            lines computed together
    """

    length: int = between(0, 4_096, default=0)
    stretch: float = between(0.01, 100, default=1.0)
    batch: int = between(1, 65_536, default=64)

    def rules(self) -> Iterator[str]:
        if self.length and self.stretch != 1:
            yield f"a length is given as a number of tokens or as a share, got {self.length} and {self.stretch}"

    @property
    def outputs(self) -> int:
        """How many are given back for each line."""
        return 1

    @property
    def guided(self) -> bool:
        return False

    @property
    def wishes(self) -> bool:
        """Does it say how long a translation is?"""
        return bool(self.length) or self.stretch != 1

    def wished(self, lengths: Int[Tensor, "*B"], longest: int) -> Int[Tensor, "*B"]:
        """So many tokens instead of as many as the model likes."""
        if self.length:
            return torch.full_like(lengths, min(self.length, longest))
        return (lengths * self.stretch).round().to(lengths.dtype).clamp(1, longest)


@torch.no_grad()
def write_at_once(
    model: ParallelTransformer, source: Int[Tensor, "B S"], how: AtOnce, longest: int, seen: Seen = lambda _: None
) -> list[list[Hypothesis]]:
    """Of every source its hypotheses, the best first. `seen` is shown what happens on the way."""
    return WRITERS[model.config.writes](model, model.encode(source), how, longest, seen)  # type: ignore[attr-defined]


def banned(model: ParallelTransformer) -> tuple[int, ...]:
    """Ids that are never written: an end only where it is what a translation is cut at."""
    return SPECIAL if model.config.writes == "end" else (*SPECIAL, END)  # type: ignore[attr-defined]


def write_masked(
    model: ParallelTransformer, memory: Memory, how: AtOnce, longest: int, seen: Seen
) -> list[list[Hypothesis]]:
    assert model.length is not None
    source = lengths_of(memory.layout)
    lengths, likely = likely_lengths(model.length(memory), source, 1 if how.wishes else how.lengths, longest)
    lengths = how.wished(lengths, longest)
    seen(Lengths(lengths, likely))
    sentences, tried = lengths.shape
    cache = model.start(memory)
    cache.select(torch.arange(sentences, device=lengths.device).repeat_interleave(tried))
    filled = fill_in(model, cache, lengths.flatten(), how.iterations, banned(model), seen)
    sums = filled.log_probability.sum(-1).unflatten(0, (sentences, tried))
    words = filled.words.unflatten(0, (sentences, tried)).tolist()
    return [
        ranked(
            Hypothesis(ids[:length], log_p, log_p / length, finished=True)
            for ids, length, log_p, chance in zip(*row, strict=True)
            if chance > -torch.inf
        )
        for row in zip(words, lengths.tolist(), sums.tolist(), likely.tolist(), strict=True)
    ]


def ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda one: -one.score) or [NOTHING]


def write_to_the_end(
    model: ParallelTransformer, memory: Memory, how: AtOnce, longest: int, seen: Seen
) -> list[list[Hypothesis]]:
    places = places_for(lengths_of(memory.layout), model.config.places, longest - 1) + 1  # type: ignore[attr-defined]
    filled = fill_in(model, model.start(memory), places, how.iterations, banned(model), seen)
    rows = zip(filled.words.tolist(), filled.log_probability.tolist(), places.tolist(), strict=True)
    return [[cut_at_end(ids[:count], log_p)] for ids, log_p, count in rows]


def places_for(source: Int[Tensor, " B"], share: float, longest: int) -> Int[Tensor, " B"]:
    """Enough for what a sentence may become."""
    return (source.double() * share).ceil().long().clamp(1, longest)  # as exact as where a batch to learn from is made


def cut_at_end(ids: list[int], log_p: list[float]) -> Hypothesis:
    finished = END in ids
    count = ids.index(END) if finished else len(ids)
    total = sum(log_p[: count + finished])
    return Hypothesis(ids[:count], total, total / max(1, count + finished), finished)


def read_graph(
    model: ParallelTransformer, memory: Memory, how: AtOnce, longest: int, seen: Seen
) -> list[list[Hypothesis]]:
    """The likeliest path, every vertex saying the word that it likes best."""
    assert model.link is not None
    last = places_for(lengths_of(memory.layout), model.config.places, longest - 2) + 1  # type: ignore[attr-defined]
    states = graph_states(model, memory, last)
    logits = model.logits(states).float()
    logits[..., list(banned(model))] = -torch.inf
    says, words = logits.log_softmax(-1).max(-1)
    links = model.link(states, last)
    scores, came_from = best_ways(says[:, None].expand(-1, int(last.max()) - 1, -1), links)
    by_length = (scores + into(links, last)[:, None]).amax(-1)  # of the best path of every number of words
    wished, lengths = best_lengths(by_length, how)
    path = trace_back(scores, came_from, into(links, last), lengths, last)
    seen(Graph(words, says, links, last, by_length, path, lengths))
    found = by_length.gather(1, lengths[:, None] - 1)[:, 0]
    rows = zip(
        words.gather(1, path).tolist(), lengths.tolist(), found.tolist(), (wished == lengths).tolist(), strict=True
    )
    return [
        [
            Hypothesis(ids[:n], log_p, log_p / length_penalty(n, how.length_penalty), finished)
            if isfinite(log_p)
            else NOTHING
        ]
        for ids, n, log_p, finished in rows
    ]


def graph_states(model: ParallelTransformer, memory: Memory, last: Int[Tensor, " B"]) -> Float[Tensor, "B L D"]:
    """Of the vertices, about which nothing is known yet."""
    vertices = int(last.max()) + 1
    places = torch.arange(vertices, device=last.device)
    layout = Padded((len(last), vertices), places, vertices, places <= last[:, None])
    masks = torch.full(layout.shape, model.mask, device=last.device)
    return model.states(masks, memory, layout)


def best_lengths(by_length: Float[Tensor, "B T"], how: AtOnce) -> tuple[Int[Tensor, " B"], Int[Tensor, " B"]]:
    """(words that are wished for, words of the path that is taken: so many as far as there are vertices)"""
    counts = torch.arange(1, by_length.shape[1] + 1, device=by_length.device)
    scores = by_length / ((5 + counts) / 6) ** how.length_penalty
    there = (by_length > -torch.inf).sum(-1).clamp(min=1)
    wished = how.wished(scores.argmax(-1) + 1, LONGEST)
    return wished, torch.minimum(wished, there)


WRITERS = {"mask": write_masked, "end": write_to_the_end, "graph": read_graph}
