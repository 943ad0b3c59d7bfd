"""Fill in enough places for any translation, again and again, and cut at the first end.

B sentences · S source tokens · T places
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.mask_predict import fill_in
from manyheads.decoding.seen import Seen, unseen
from manyheads.decoding.way import Way, first_word, places_for, rows_in, shape_of
from manyheads.models.parallel import ParallelTransformer, lengths_of
from manyheads.text.tokenizer import END

__all__ = ["UpToTheEnd", "cut_at_end"]


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


def cut_at_end(ids: list[int], log_p: list[float]) -> Hypothesis:
    finished = END in ids
    count = ids.index(END) if finished else len(ids)
    total = sum(log_p[: count + finished])
    return Hypothesis(ids[:count], total, total / max(1, count + finished), finished)
