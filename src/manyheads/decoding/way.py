"""How sentences are written all at once: what all ways of doing it have in common, and their options.

B sentences · S source tokens
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from manyheads.decoding.hypothesis import NOTHING, Hypothesis
from manyheads.decoding.said_length import MOST_PIECES, SHARES
from manyheads.decoding.seen import Seen, unseen
from manyheads.models.config import ParallelConfig
from manyheads.models.parallel import ParallelTransformer
from manyheads.sections import between
from manyheads.settings import RefineConfig
from manyheads.text.tokenizer import BEGIN, END, PADDING

__all__ = ["AtOnce", "Way", "copied", "first_word", "places_for", "ranked", "rows_in", "shape_of"]


@dataclass(frozen=True)
class AtOnce(RefineConfig):
    """How to write all at once: the settings of a recipe, and options for a single translation.

    length           tokens of a translation; 0 = as many as the model likes
    stretch          the length of a translation, as a multiple of what the model likes
    batch            lines computed together
    """

    length: int = between(0, MOST_PIECES, default=0)
    stretch: float = between(*SHARES, default=1.0)
    batch: int = between(1, 65_536, default=64)

    def rules(self) -> Iterator[str]:
        if self.length and self.stretch != 1:
            yield f"a length must be given as a number of tokens or as a share, not both, got {self.length} and {self.stretch}"

    @property
    def outputs(self) -> int:
        """How many translations are returned for each line."""
        return 1

    @property
    def guided(self) -> bool:
        return False

    @property
    def wishes(self) -> bool:
        """True if the length of a translation is given."""
        return bool(self.length) or self.stretch != 1

    @property
    def lengths_tried(self) -> int:
        """Candidates written for each sentence, at most; where a translation goes up to its end, always one."""
        return 1 if self.wishes else self.lengths

    def wished(self, lengths: Int[Tensor, "*B"]) -> Int[Tensor, "*B"]:
        """The lengths that are wished for, instead of those that the model likes."""
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
        """Rows that a sentence takes."""
        return 1

    def room(self, model: Any, source: int) -> int:
        """Places in which all, or nearly all, translations of `source` tokens fit."""
        return min(self.longest, shape_of(model).places_for(source))

    @abstractmethod
    def compute(self, model: Any, source: Int[Tensor, "B S"], room: int | None = None, seen: Seen = unseen) -> Any:
        """Return a tuple of all that is known of the translations, sentences first.

        Without `room`, they have as many places as they need.
        """

    def needs(self, computed: Any) -> int:
        """Places that the translations would have needed, if that is not known beforehand."""
        return 0

    @abstractmethod
    def read(self, computed: Any) -> list[list[Hypothesis]]:
        """The hypotheses of every sentence, the best first."""


def first_word(model: ParallelTransformer) -> int:
    """Ids below this one are never written: an end only where a translation is cut at it.

    (Words come after padding, begin and end.)
    """
    return 1 + (max(PADDING, BEGIN) if shape_of(model).writes == "end" else END)


def shape_of(model: ParallelTransformer) -> ParallelConfig:
    assert isinstance(model.config, ParallelConfig)
    return model.config


def copied(computed: Any) -> Any:
    """A copy in memory of its own."""
    return type(computed)(*map(torch.clone, computed))


def rows_in(computed: tuple[Tensor, ...]) -> Iterator[tuple[Any, ...]]:
    """What is known of each sentence, on the host."""
    return zip(*(x.tolist() for x in computed), strict=True)


def ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda one: -one.score) or [NOTHING]


def places_for(source: Int[Tensor, " B"], share: float, longest: int) -> Int[Tensor, " B"]:
    """Enough places for what each source may become."""
    return (source.double() * share).ceil().long().clamp(1, longest)  # in double precision, as in training
