"""All tokens of a translation at once: what stands in the place of a search where a model writes in parallel.

    mask    for each of the likeliest lengths, places that are filled in again and again; the surest of them is taken
    end     places enough for any translation, filled in again and again, cut at the first end
    graph   the likeliest path through a graph
    judged  several of the first or the last, among which another model chooses (`judging`)

Each way is a computation on the device, which may be recorded (`desks`): told how many places there are, it asks the host nothing. What it has
computed, the host reads.

B sentences · K lengths of each that are tried · S source tokens · T places · L vertices
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.decoding.desks import write_at_desk
from manyheads.decoding.hypothesis import NOTHING, Hypothesis, length_penalty
from manyheads.decoding.judging import WriterAndJudge
from manyheads.decoding.mask_predict import fill_in, likeliest
from manyheads.decoding.seen import Graph, Lengths, Seen, unseen
from manyheads.models.config import ParallelConfig
from manyheads.models.parallel import ParallelTransformer, lengths_of, likely_lengths
from manyheads.nn import Memory, Padded
from manyheads.nn.paths import best_ways, into, trace_back
from manyheads.sections import between
from manyheads.settings import RefineConfig
from manyheads.text.tokenizer import BEGIN, END, PADDING

__all__ = ["AtOnce", "Way", "first_word", "way_of", "write_at_once"]


LENGTH_COUNTS = 0.5
"""So much as a word does, where lengths are compared: its predictor is surer than it should be."""


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

    def wished(self, lengths: Int[Tensor, "*B"]) -> Int[Tensor, "*B"]:
        """So many tokens instead of as many as the model likes."""
        if self.length:
            return torch.full_like(lengths, self.length)
        return (lengths * self.stretch).round().to(lengths.dtype).clamp(min=1)


@dataclass(frozen=True)
class Way(ABC):
    """How sentences are written.

    longest   tokens that the model can write
    """

    how: AtOnce
    longest: int

    @property
    def rows(self) -> int:
        """That a sentence takes."""
        return 1

    def room(self, model: Any, source: int) -> int:
        """Places that translations of so many source tokens find room in, or nearly all of them."""
        return min(self.longest, shape_of(model).places_for(source))

    @abstractmethod
    def compute(self, model: Any, source: Int[Tensor, "B S"], room: int | None = None, seen: Seen = unseen) -> Any:
        """A tuple of all that is known of the translations, sentences first. Without `room`, in as many places as they need."""

    def needs(self, computed: Any) -> int:
        """Places that they would have needed, as far as that is not known before."""
        return 0

    @abstractmethod
    def read(self, computed: Any) -> list[list[Hypothesis]]:
        """Of every sentence its hypotheses, the best first."""


def first_word(model: ParallelTransformer) -> int:
    """Ids below it are never written: an end only where it is what a translation is cut at. (Words come behind padding, begin and end.)"""
    return 1 + (max(PADDING, BEGIN) if shape_of(model).writes == "end" else END)


def shape_of(model: ParallelTransformer) -> ParallelConfig:
    assert isinstance(model.config, ParallelConfig)
    return model.config


def rows_in(computed: tuple[Tensor, ...]) -> Iterator[tuple[Any, ...]]:
    """What is known of each sentence, on the host."""
    return zip(*(x.tolist() for x in computed), strict=True)


# ── masks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class InMasks(Way):
    class Computed(NamedTuple):
        words: Int[Tensor, "B K T"]
        lengths: Int[Tensor, "B K"]
        wished: Int[Tensor, "B K"]
        log_probability: Float[Tensor, "B K"]
        likely: Float[Tensor, "B K"]

    @property
    def rows(self) -> int:
        return 1 if self.how.wishes else self.how.lengths

    def room(self, model: ParallelTransformer, source: int) -> int:
        likely = ceil(1.25 * source) + 4
        return min(self.longest, self.how.length or ceil(likely * self.how.stretch))

    def compute(
        self, model: ParallelTransformer, source: Int[Tensor, "B S"], room: int | None = None, seen: Seen = unseen
    ) -> Computed:
        assert model.length is not None
        memory = model.encode(source)
        likes, likely = likely_lengths(model.length(memory), lengths_of(memory.layout), self.rows, self.longest)
        wished = self.how.wished(likes)
        lengths = wished.clamp(max=self.longest)
        seen(Lengths(lengths, likely))
        cache = model.start(memory)
        cache.select(torch.arange(len(source), device=source.device).repeat_interleave(self.rows))
        filled = fill_in(model, cache, lengths.flatten(), self.how.iterations, first_word(model), seen, room)
        words, sums = (x.unflatten(0, lengths.shape) for x in (filled.words, filled.log_probability.sum(-1)))
        return self.Computed(words, lengths, wished, sums, torch.zeros_like(likely) if self.how.wishes else likely)

    def needs(self, computed: Computed) -> int:
        return int(computed.lengths.max())

    def read(self, computed: Computed) -> list[list[Hypothesis]]:
        return [
            ranked(
                Hypothesis(ids[:length], log_p, score_in_masks(log_p, chance, length), finished=length == wished)
                for ids, length, wished, log_p, chance in zip(*row, strict=True)
                if chance > -torch.inf
            )
            for row in rows_in(computed)
        ]


def score_in_masks(log_p: float, chance: float, length: int) -> float:
    """log P for each thing that was decided, words and their number: by words alone, short ones are taken too often."""
    return (log_p + LENGTH_COUNTS * chance) / (length + 1)


def ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda one: -one.score) or [NOTHING]


# ── up to the end ───────────────────────────────────────────────────────────────────────────────────────────────────


class UpToTheEnd(Way):
    class Computed(NamedTuple):
        words: Int[Tensor, "B T"]
        log_probability: Float[Tensor, "B T"]
        places: Int[Tensor, " B"]

    def compute(
        self, model: ParallelTransformer, source: Int[Tensor, "B S"], room: int | None = None, seen: Seen = unseen
    ) -> Computed:
        memory = model.encode(source)
        places = places_for(lengths_of(memory.layout), shape_of(model).places, self.longest - 1) + 1
        filled = fill_in(model, model.start(memory), places, self.how.iterations, first_word(model), seen, room)
        return self.Computed(filled.words, filled.log_probability, places)

    def read(self, computed: Computed) -> list[list[Hypothesis]]:
        return [[cut_at_end(ids[:count], log_p)] for ids, log_p, count in rows_in(computed)]


def places_for(source: Int[Tensor, " B"], share: float, longest: int) -> Int[Tensor, " B"]:
    """Enough for what a sentence may become."""
    return (source.double() * share).ceil().long().clamp(1, longest)  # as exact as where a batch to learn from is made


def cut_at_end(ids: list[int], log_p: list[float]) -> Hypothesis:
    finished = END in ids
    count = ids.index(END) if finished else len(ids)
    total = sum(log_p[: count + finished])
    return Hypothesis(ids[:count], total, total / max(1, count + finished), finished)


# ── graphs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class ThroughAGraph(Way):
    """The likeliest path, every vertex saying the word that it likes best; and, where others are asked for, the best of other lengths."""

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
        by_length = (scores + into(links, last)[:, None]).amax(-1)  # of the best path of every number of words
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
    """Of the vertices, about which nothing is known yet."""
    vertices = vertices or int(last.max()) + 1
    places = torch.arange(vertices, device=last.device)
    layout = Padded((len(last), vertices), places, vertices, places <= last[:, None])
    masks = torch.full(layout.shape, model.mask, device=last.device)
    return model.states(masks, memory, layout)


def trace_all_back(
    scores: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], lengths: Int[Tensor, "B K"], last: Int[Tensor, " B"]
) -> Int[Tensor, "B K T"]:
    """The best paths of all these lengths."""
    if (paths := lengths.shape[1]) > 1:
        scores, links, last = (x.repeat_interleave(paths, 0) for x in (scores, links, last))
    return trace_back(scores, links, lengths.flatten(), last).unflatten(0, lengths.shape)


def best_lengths(by_length: Float[Tensor, "B T"], how: AtOnce) -> tuple[Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """(words that are wished for, words of the paths that are taken: so many as far as there are vertices), the best first"""
    counts = torch.arange(1, by_length.shape[1] + 1, device=by_length.device)
    scores = by_length / ((5 + counts) / 6) ** how.length_penalty
    if not how.wishes:
        best = scores.topk(min(how.lengths, scores.shape[1])).indices + 1
        return best, best
    there = (by_length > -torch.inf).sum(-1, keepdim=True).clamp(min=1)
    wished = how.wished(scores.argmax(-1, keepdim=True) + 1)
    return wished, torch.minimum(wished, there)


# ── judged ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Judged(Way):
    """
    kind    how candidates are written
    alpha   the exponent of the length penalty by which they are compared
    """

    kind: type[Way]
    alpha: float

    @property
    def inner(self) -> Way:
        return self.kind(self.how, self.longest)

    @property
    def rows(self) -> int:
        return self.inner.rows

    def room(self, model: WriterAndJudge, source: int) -> int:
        return self.inner.room(model.writer, source)

    def compute(
        self, model: WriterAndJudge, source: Int[Tensor, "B S"], room: int | None = None, seen: Seen = unseen
    ) -> Any:
        """As the kind does, but for the log-probabilities of those candidates that have one."""
        found = self.inner.compute(model.writer, source, room, seen)
        words = found.words if room else found.words[:, :, : int(found.lengths.max())]
        opinion = model.opinion(source, words, found.lengths)
        own = found.log_probability
        return found._replace(log_probability=torch.where(own.isfinite(), opinion, own))

    def needs(self, computed: Any) -> int:
        return self.inner.needs(computed)

    def read(self, computed: Any) -> list[list[Hypothesis]]:
        return [
            ranked(self.weighed(one) for one in hypotheses if one.finite) for hypotheses in self.inner.read(computed)
        ]

    def weighed(self, one: Hypothesis) -> Hypothesis:
        """Compared as a search would, by all that the judge has read: the words and the end."""
        return replace(one, score=one.log_probability / length_penalty(len(one.ids) + 1, self.alpha))


# ── any ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

WAYS: dict[str, type[Way]] = {"mask": InMasks, "end": UpToTheEnd, "graph": ThroughAGraph}


def way_of(model: ParallelTransformer | WriterAndJudge, how: AtOnce, longest: int) -> Way:
    if isinstance(model, WriterAndJudge):
        return Judged(how, longest, WAYS[shape_of(model.writer).writes], model.alpha)
    return WAYS[shape_of(model).writes](how, longest)


@torch.no_grad()
def write_at_once(
    model: ParallelTransformer | WriterAndJudge,
    source: Int[Tensor, "B S"],
    how: AtOnce,
    longest: int,
    seen: Seen = unseen,
) -> list[list[Hypothesis]]:
    """Of every source its hypotheses, the best first, in the model's own precision. `seen` is shown what happens on the way."""
    way = way_of(model, how, longest)
    with torch.autocast(source.device.type, enabled=False):
        found = write_at_desk(model, source, way) if seen is unseen else None
        return way.read(way.compute(model, source, seen=seen)) if found is None else found
