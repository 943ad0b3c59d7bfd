"""Fill in places for each of the likeliest lengths, again and again, and take the surest candidate.

B sentences · K lengths tried for each · S source tokens · T places
"""

from math import ceil, isfinite
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.mask_predict import fill_in
from manyheads.decoding.seen import Lengths, Seen, unseen
from manyheads.decoding.way import Way, first_word, ranked, rows_in
from manyheads.models.parallel import ParallelTransformer, lengths_of, likely_lengths

__all__ = ["InMasks"]

LENGTH_COUNTS = 0.3
"""The weight of the length, against 1 for a word, in comparing candidates: its predictor is surer than it should be."""


class InMasks(Way):
    class Computed(NamedTuple):
        words: Int[Tensor, "B K T"]
        lengths: Int[Tensor, "B K"]
        wished: Int[Tensor, "B K"]
        log_probability: Float[Tensor, "B K"]
        likely: Float[Tensor, "B K"]

    @property
    def rows(self) -> int:
        return self.how.lengths_tried

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
        cache.share(self.rows)
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
                if chance > -torch.inf and isfinite(log_p)
            )
            for row in rows_in(computed)
        ]


def score_in_masks(log_p: float, chance: float, length: int) -> float:
    """log P per decision, the words and their number: by words alone, short candidates would be taken too often."""
    return (log_p + LENGTH_COUNTS * chance) / (length + 1)
