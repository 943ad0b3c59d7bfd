"""How sentences are written all at once: what all ways of doing it have in common, and what they are told.

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
    """What a recipe says of it, and what is said for one translation:

    length           tokens that a translation has; 0 = as many as the model likes
    stretch          times as many tokens as the model likes
    batch            lines computed together
    """

    length: int = between(0, MOST_PIECES, default=0)
    stretch: float = between(*SHARES, default=1.0)
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

    @property
    def lengths_tried(self) -> int:
        """Candidates that are written of each sentence, at most; where it goes up to its end, there is always one."""
        return 1 if self.wishes else self.lengths

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


def copied(computed: Any) -> Any:
    """In memory of its own."""
    return type(computed)(*map(torch.clone, computed))


def rows_in(computed: tuple[Tensor, ...]) -> Iterator[tuple[Any, ...]]:
    """What is known of each sentence, on the host."""
    return zip(*(x.tolist() for x in computed), strict=True)


def ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda one: -one.score) or [NOTHING]


def places_for(source: Int[Tensor, " B"], share: float, longest: int) -> Int[Tensor, " B"]:
    """Enough for what a sentence may become."""
    return (source.double() * share).ceil().long().clamp(1, longest)  # as exact as where a batch to learn from is made
