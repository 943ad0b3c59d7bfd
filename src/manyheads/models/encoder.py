"""An encoder alone: it reads a text and returns a vector for each token, which has seen all the others.

    states = model(ids)                             of every token
    states = model(ids, layout, segments)           packed, or of texts of several kinds

B texts · T tokens · D width
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.errors import OptionError
from manyheads.models.config import EncoderConfig
from manyheads.models.initialise import initialise
from manyheads.models.parts import build_encoder, build_positions
from manyheads.nn import Layout, Padded
from manyheads.nn.checks import check_ids
from manyheads.nn.dropout import Dropout
from manyheads.nn.norms import make_norm
from manyheads.nn.table import Table
from manyheads.nn.unchanged import unchanged

__all__ = ["TextEncoder"]


class TextEncoder(nn.Module):
    """An encoder of texts over `vocabulary` tokens."""

    def __init__(self, config: EncoderConfig, vocabulary: int) -> None:
        super().__init__()
        if vocabulary < 1:
            raise OptionError(f"a vocabulary needs at least one token, got {vocabulary}")
        self.config = config
        self.words = Table(vocabulary, config.width)
        self.embed = EmbedTokens(config)
        self.encoder = build_encoder(config)
        initialise(self)

    def forward(
        self,
        ids: Int[Tensor, "*batch"],
        layout: Layout | None = None,
        segments: Int[Tensor, "*batch"] | None = None,
        weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "*batch D"]:
        """Without a layout, every id is a token. Without segments, all are of kind 0."""
        check_ids("ids", ids, layout)
        layout = layout or Padded.like(ids)
        return self.encoder(self.embed(self.words(ids), layout, segments), layout, weights)


class EmbedTokens(nn.Module):
    """Words + kinds of text + positions, normalised if the model is configured so, then dropout."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.segments = Table(config.segments, config.width) if config.segments else None
        self.positions = build_positions(config)
        self.norm: Callable[[Tensor], Tensor] = (
            make_norm(config.normaliser, config.width, config.norm_eps) if config.embed_norm else unchanged
        )
        self.dropout = Dropout(config.dropout) if config.dropout else unchanged

    def forward(
        self, words: Float[Tensor, "*batch D"], layout: Layout, segments: Int[Tensor, "*batch"] | None = None
    ) -> Float[Tensor, "*batch D"]:
        if self.segments is not None:
            words = words + (self.segments.weight[0] if segments is None else self.segments(segments))
        elif segments is not None and torch.any(segments != 0):
            raise OptionError("segments must be left out or all 0 in a model built with segments = 0, got others")
        return self.dropout(self.norm(self.positions(words, layout)))
