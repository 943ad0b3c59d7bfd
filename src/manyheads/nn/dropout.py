"""Dropout: sets some numbers to 0 and scales up the others, so that the mean stays the same.

On a CPU, PyTorch draws for each number separately, on one core, while the others wait: for a small Transformer a tenth
of a training step on two cores, and a larger share on more. Here 64 random bits are drawn at a time, for four numbers,
and everything else runs on all cores.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.nn.checks import check_probability
from manyheads.nn.watched import is_watched

__all__ = ["Dropout", "dropout", "share_dropped"]

LEVELS = 1 << 16
"""The number of 16-bit values: probabilities are rounded to multiples of 1 / LEVELS."""


class Dropout(nn.Dropout):
    """nn.Dropout that checks its probability when built, and returns its input itself when not training."""

    def __init__(self, p: float) -> None:
        super().__init__(check_probability("dropout", p))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return dropout(input, self.p) if self.training else input


def share_dropped(layer: Callable[[Tensor], Tensor]) -> float:
    """The share that `layer` drops in its present mode: 0 unless it is a `Dropout` in training."""
    return layer.p if isinstance(layer, Dropout) and layer.training else 0.0


def dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Set each number to 0 with probability `p`, or divide it by 1 − p.

    On a CPU the probability is `p` to within 1 in 131,072. Random bits come from the default generator.
    """
    dropped = round(p * LEVELS)
    if x.device.type != "cpu" or is_watched() or not 0 < dropped < LEVELS:
        return F.dropout(x, p)
    return KeepSome.apply(x, draw_kept(x.shape, dropped), LEVELS / (LEVELS - dropped))  # type: ignore[no-any-return]


def draw_kept(shape: torch.Size, dropped: int) -> Bool[Tensor, "*shape"]:
    """Draw 16 bits for each number: True unless they are among the `dropped` lowest values."""
    count = shape.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64, device="cpu").random_(-(1 << 63), None)
    return bits.view(torch.int16)[:count].view(shape) >= dropped - LEVELS // 2


class KeepSome(torch.autograd.Function):
    """x · kept · scale. Only one byte per number is held for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return torch.ops.aten.native_dropout_backward(x, kept, scale)  # just this product, despite the name

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (kept,) = ctx.saved_tensors
        return KeepSome.apply(gradients[0], kept, ctx.scale), None, None  # type: ignore[return-value]
