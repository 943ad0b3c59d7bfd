"""A model with its vocabulary: how lines become ids, and how many pieces it takes at once."""

from collections.abc import Sequence

import torch

from manyheads.decoding.cutting import Cutter
from manyheads.decoding.ensemble import Ensemble
from manyheads.errors import OptionError, brief
from manyheads.machine import precision_of
from manyheads.models.transformer import Transformer
from manyheads.recipe import Recipe
from manyheads.text.tokenizer import END
from manyheads.text.vocabulary import Vocabulary

__all__ = ["TextModel"]

LONGEST_SCORED = 2_048
"""Pieces of a side that are scored; of a longer one, the beginning. No sentence is longer, and memory is bounded."""

LONGEST_ALIGNED = 1_024
"""Pieces of a side that are aligned: the weights of all heads are held in memory."""


class TextModel:
    """A trained Transformer, or an ensemble of them, with its vocabulary.

    It computes on the model's device and in the model's precision.
    """

    def __init__(self, model: Transformer | Ensemble, vocabulary: Vocabulary, recipe: Recipe) -> None:
        self.model, self.vocabulary, self.recipe = model, vocabulary, recipe

    def __repr__(self) -> str:
        sides = (self.vocabulary.source.size, self.vocabulary.target.size)
        return f"<{type(self).__name__}: {self.model.config.width} wide, {' → '.join(f'{size:,}' for size in sides)} pieces, {self.device}, {self.precision}>"

    @property
    def device(self) -> torch.device:
        return self.model.words.weight.device

    @property
    def precision(self) -> str:
        """The precision of the weights: "fp32", "bf16", "fp16" or "int8"."""
        return precision_of(self.model.words.weight.dtype)

    @property
    def single(self) -> Transformer:
        """The model whose attention is read: the first of an ensemble."""
        return self.model.first if isinstance(self.model, Ensemble) else self.model

    # ── how many pieces ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def longest(self) -> int:
        """Tokens a sequence may have: a table of learned positions is finite."""
        config = self.model.config
        return config.max_length if config.positions == "learned" else 1 << 20

    @property
    def longest_source(self) -> int:
        """Pieces read in one pass, without the end: no sentence was longer in training."""
        return max(1, min(self.recipe.data.max_length, self.longest - 1))

    @property
    def comfortable(self) -> int:
        """A line with more pieces than this is translated sentence by sentence."""
        return self.recipe.decode.max_source or self.longest_source

    @property
    def longest_scored(self) -> int:
        """Pieces of a side that are scored, including the end."""
        return min(self.longest, max(LONGEST_SCORED, 1 + self.recipe.data.max_length))

    @property
    def longest_aligned(self) -> int:
        """Pieces of a side that are aligned, including the begin or end."""
        return min(self.longest, LONGEST_ALIGNED)

    # ── lines to ids ────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, lines: Sequence[str]) -> list[list[list[int]]]:
        """For each line, the ids of its parts, each with its end. Most lines have one part, blank lines none."""
        cutter = Cutter(self.vocabulary.source, self.longest_source, self.comfortable, self.longest - 1)
        return [[[*part, END] for part in line] for line in cutter(lines)]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of the sources, each with its end, and of the targets, without one."""
        for pair in pairs:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise OptionError(
                    f"a pair must be a source and a target, got {brief(pair)}", hint='[("source", "target"), …]'
                )
        sources = self.vocabulary.source.encode([source for source, _ in pairs])
        return [[*ids, END] for ids in sources], self.vocabulary.target.encode([target for _, target in pairs])
