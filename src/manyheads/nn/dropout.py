"""Dropout: some numbers become 0, and the others larger, so that the mean stays.

On a CPU PyTorch draws for every number on its own, on one core, whatever the others do: for a small Transformer a tenth of a training step on two cores,
and more on more. Here 64 random bits are drawn at a time, for four numbers, and all else is done by all cores.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.nn.checks import check_probability

__all__ = ["Dropout", "dropout", "share_dropped"]

LEVELS = 1 << 16
"""Of a probability: that many values of 16 bits are dropped, or kept."""


class Dropout(nn.Dropout):
    """nn.Dropout, checked when built, that is out of the way when it does not train."""

    def __init__(self, p: float) -> None:
        super().__init__(check_probability("dropout", p))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return dropout(input, self.p) if self.training else input


def share_dropped(layer: Callable[[Tensor], Tensor]) -> float:
    """By a `Dropout` as it is now, or by what stands in its place."""
    return layer.p if isinstance(layer, Dropout) and layer.training else 0.0


def dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Each number is 0 with probability `p` (on a CPU to within 1 in 131,072), or divided by 1 − p. Draws are the default generator's."""
    dropped = round(p * LEVELS)
    if x.device.type != "cpu" or torch.compiler.is_compiling() or not 0 < dropped < LEVELS:
        return F.dropout(x, p)
    return KeepSome.apply(x, draw_kept(x.shape, dropped), LEVELS / (LEVELS - dropped))  # type: ignore[no-any-return]


def draw_kept(shape: torch.Size, dropped: int) -> Bool[Tensor, "*shape"]:
    """Of all values that 16 bits have, the lowest are dropped."""
    count = shape.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64, device="cpu").random_(-(1 << 63), None)
    return bits.view(torch.int16)[:count].view(shape) >= dropped - LEVELS // 2


class KeepSome(torch.autograd.Function):
    """x · kept · scale; what is held until the gradient comes is a byte a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return torch.ops.aten.native_dropout_backward(x, kept, scale)  # the product, by the name of who else needs it

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (kept,) = ctx.saved_tensors
        return KeepSome.apply(gradients[0], kept, ctx.scale), None, None  # type: ignore[return-value]
