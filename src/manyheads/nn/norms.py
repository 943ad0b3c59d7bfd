"""Layer norm and RMS norm, as PyTorch has them, with a backward pass of our own on a GPU.

A norm's gradient needs sums along each row, and those of its weight and bias sums over all rows. Compilers make two passes of it, or
one that is slower than two; one kernel reads everything once (norm_kernels.py). The forward pass stays in sight of the compiler,
which joins it with the dropout and the sum before it.

D width
"""

from functools import cache
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.errors import choose
from manyheads.nn.ragged import HAVE_TRITON

__all__ = ["InnerLayerNorm", "InnerRMSNorm", "make_norm"]

WIDEST = 8192
PROGRAMS = 1056
"""Eight for each multiprocessor of a large GPU; on a smaller one some wait."""


def make_norm(kind: str, width: int, eps: float, *, inner: bool = False) -> nn.Module:
    """ "layer" or "rms". What an inner norm gives is only ever multiplied by matrices, so autocast may have it in half precision."""
    if inner:
        return choose("normaliser", kind, {"layer": InnerLayerNorm, "rms": InnerRMSNorm})(width, eps=eps)
    return choose("normaliser", kind, {"layer": nn.LayerNorm, "rms": nn.RMSNorm})(width, eps=eps)


class InnerLayerNorm(nn.LayerNorm):
    def forward(self, input: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:  # noqa: A002
        return Normalise.apply(input, self.weight, self.bias, self.eps) if fast(input) else super().forward(input)


class InnerRMSNorm(nn.RMSNorm):
    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        return Normalise.apply(x, self.weight, None, self.eps) if fast(x) else super().forward(x)


def fast(x: Tensor) -> bool:
    """In training on a GPU. What is not trained has no backward pass."""
    return (
        x.is_cuda
        and HAVE_TRITON
        and torch.is_grad_enabled()
        and x.requires_grad
        and x.dtype != torch.float64
        and x.shape[-1] <= WIDEST
    )


def half_of(x: Tensor) -> torch.dtype:
    """What matrices multiply: under autocast, its precision."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


class Normalise(torch.autograd.Function):
    """Without a bias it is RMS norm: the mean is not taken off."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
        wide = x.float()
        mean = wide.mean(-1, keepdim=True) if bias is not None else wide.new_zeros(())
        centred = wide - mean
        scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.centred = bias is not None
        y = centred * scale * weight
        return (y if bias is None else y + bias).to(half_of(x))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight, mean, scale = ctx.saved_tensors
        dx, sums = norm_backward(gradient.contiguous(), x.contiguous(), weight, mean, scale, ctx.centred)
        return dx, sums[0], sums[1] if ctx.centred else None, None


@torch.library.custom_op("manyheads::norm_backward", mutates_args=())
def norm_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, centred: bool
) -> tuple[Tensor, Tensor]:
    """(the gradient of x; those of weight and bias)"""
    width = x.shape[-1]
    rows = x.numel() // width
    programs = min(PROGRAMS, rows)
    dx, sums = empty(x, weight)
    partial = x.new_empty(programs, 2 * width, dtype=torch.float32)
    power = 1 << (width - 1).bit_length()
    at_once = max(2, 1024 // power)  # rows; a warp takes 512 numbers
    kernels().backward_rows[(programs,)](
        gradient, x, mean, scale, weight, dx, partial, rows, width,
        CENTRED=centred, WIDTH=power, ROWS=at_once, num_warps=min(16, max(1, at_once * power // 512)),
    )  # fmt: skip
    kernels().sum_partial[(-(-2 * width // 16),)](partial, sums, programs, 2 * width, BLOCK=16, ROWS=64)
    return dx, sums


@norm_backward.register_fake
def _(gradient: Tensor, x: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return empty(x, weight)


def empty(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), weight.new_empty(2, weight.shape[0], dtype=torch.float32)


@cache
def kernels() -> Any:
    return import_module("manyheads.nn.norm_kernels")
