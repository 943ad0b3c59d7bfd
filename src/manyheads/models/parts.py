"""From a configuration to the parts of a model: every choice is made here, once, when the model is built."""

import math
from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.errors import choose
from manyheads.models.config import StackConfig, TransformerConfig
from manyheads.nn import (
    Decoder,
    DecoderBlock,
    Encoder,
    EncoderBlock,
    FeedForward,
    Layout,
    LearnedPositions,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    Residual,
    Rotary,
    SinusoidalPositions,
)
from manyheads.nn.dropout import Dropout
from manyheads.nn.norms import make_norm
from manyheads.nn.unchanged import unchanged

__all__ = ["Embed", "build_decoder", "build_encoder", "build_positions"]


class Embed(nn.Module):
    """Words × √D, positions added, dropout. The word vectors are passed in: source and target may share a table."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.width)
        self.positions = build_positions(config)
        self.dropout = Dropout(config.dropout) if config.dropout else unchanged

    def forward(self, words: Float[Tensor, "*batch D"], layout: Layout) -> Float[Tensor, "*batch D"]:
        return self.dropout(self.positions(words * self.scale, layout))


def build_encoder(config: StackConfig, *, causal: bool = False) -> Encoder:
    blocks = [
        EncoderBlock(build_attention(config, causal=causal, window=config.window), build_feedforward(config), residual)
        for residual in build_residuals(config, config.layers)
    ]
    return Encoder(blocks, build_last_norm(config))


def build_decoder(config: TransformerConfig) -> Decoder:
    blocks = [
        DecoderBlock(
            build_attention(config, causal=config.causal),
            build_attention(config, rotary=False),  # source and target positions are not comparable
            build_feedforward(config),
            residual,
        )
        for residual in build_residuals(config, config.depth)
    ]
    return Decoder(blocks, build_last_norm(config))


def build_attention(
    config: StackConfig, *, causal: bool = False, window: tuple[int, int] | None = None, rotary: bool = True
) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.width,
        config.heads,
        kv_heads=config.kv_heads,
        key_width=config.key_width,
        value_width=config.value_width,
        bias=config.bias,
        causal=causal,
        window=window,
        score=config.score,
        rotary=Rotary(config.head_width) if rotary and config.positions == "rotary" else None,
        qk_norm=config.qk_norm,
        dropout=config.attention_dropout,
    )


def build_feedforward(config: StackConfig) -> FeedForward:
    return FeedForward(
        config.width,
        config.feedforward,
        activation=config.activation,
        bias=config.feedforward_bias,
        dropout=config.feedforward_dropout,
    )


def build_residuals(config: StackConfig, layers: int) -> list[partial[Residual]]:
    """For each block, the function that builds its residuals; drop path grows with depth, from 0 in the first block."""
    kind = choose("norm", config.norm, {"pre": PreNorm, "post": PostNorm})
    norm = partial(make_norm, config.normaliser, config.width, config.norm_eps, inner=config.norm == "pre")
    steps = max(1, layers - 1)
    return [
        partial(kind, norm, dropout=config.dropout, drop_path=config.drop_path * depth / steps)
        for depth in range(layers)
    ]


def build_last_norm(config: StackConfig) -> Callable[[Tensor], Tensor]:
    """A pre-norm stack ends on a bare sum and needs a norm; a post-norm stack ends on one."""
    if config.norm == "post":
        return unchanged
    return make_norm(config.normaliser, config.width, config.norm_eps, inner=True)


def build_positions(config: StackConfig) -> Callable[[Tensor, Layout], Tensor]:
    """The layer that adds positions to embeddings. Rotary positions are not added: each attention has its own."""
    match config.positions:
        case "sinusoidal":
            return SinusoidalPositions(config.width)
        case "sinusoidal-split":
            return SinusoidalPositions(config.width, interleaved=False)
        case "learned":
            return LearnedPositions(config.max_length, config.width)
        case _:
            return unchanged
