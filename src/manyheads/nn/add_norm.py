"""x + dropout(y) and its norm, in one pass forward and one backward, in Triton.

Between two sublayers there are a dropout, a sum and a norm. Here each number is read and written once
(norm_kernels.py): 12 bytes forward and 16 backward, if the stream is float32 and the outputs of sublayers are half as
wide. The mask is not stored but drawn again.

D width
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.nn.kernels import kernels

__all__ = ["add_norm", "half_of", "norm_backward", "suits"]

WIDEST = 8192
"""Numbers in the longest row: a program holds all of them in registers."""

FORWARD_PROGRAMS = 3168
"""At a width of 512 each is one warp: as many as the registers of a large GPU hold."""

BACKWARD_PROGRAMS = 1056
"""Eight per multiprocessor of a large GPU; on a smaller one some wait. Each writes one row of sums for the weight."""


def add_norm(
    x: Float[Tensor, "*batch D"],
    y: Float[Tensor, "*batch D"],
    weight: Float[Tensor, " D"],
    bias: Float[Tensor, " D"] | None,
    eps: float,
    *,
    centred: bool,
    dropout: float,
    seed: Int[Tensor, ""],
) -> tuple[Float[Tensor, "*batch D"], Float[Tensor, "*batch D"], Int[Tensor, ""]]:
    """(x + dropout(y), its norm, a new seed). The norm is layer norm if `centred`; RMS norm does not subtract the mean.

    The seed determines the mask and is on the device: a CUDA graph drops different numbers with each new seed.
    The norm is only multiplied by matrices, so under autocast it is in the precision of autocast.
    """
    total, normed, _, _, seed = forward(x, y, weight, bias, eps, centred, dropout, seed, half_of(x))
    return total, normed, seed


def suits(rows: Float[Tensor, "*batch D"]) -> bool:
    """True if the kernels support these rows, or rows as wide as this weight: not too wide, and not float64."""
    return rows.shape[-1] <= WIDEST and rows.dtype != torch.float64


def half_of(x: Tensor) -> torch.dtype:
    """The dtype of matrix products with x: the precision of autocast where it is enabled, else the dtype of x."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


@torch.library.custom_op("manyheads::add_norm", mutates_args=())
def forward(
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None,
    eps: float, centred: bool, dropout: float, seed: Tensor, dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """(the sum, its norm, the mean and the scale of each row, a new seed)"""
    outputs = empty(x, seed, dtype)
    width = x.shape[-1]
    rows = x.numel() // width
    tile = tile_of(width, 512)  # up to a width of 512, a warp has its rows to itself and waits for no other
    kernels("norm").forward_rows[(min(FORWARD_PROGRAMS, rows),)](
        x.contiguous(), y.contiguous(), seed, weight, bias, *outputs, rows, width, eps,
        DROPOUT=dropout, CENTRED=centred, **tile,
    )  # fmt: skip
    return outputs


@forward.register_fake
def _(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    *_, seed, dtype = rest
    return empty(x, seed, dtype)


def empty(x: Tensor, seed: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    mean, scale = (x.new_empty(x.shape[:-1], dtype=torch.float32) for _ in range(2))
    return x.new_empty(x.shape), x.new_empty(x.shape, dtype=dtype), mean, scale, seed.new_empty(())


@torch.library.custom_op("manyheads::norm_backward", mutates_args=())
def norm_backward(
    gradient: Tensor, total_gradient: Tensor | None, total: Tensor, mean: Tensor, scale: Tensor, weight: Tensor,
    centred: bool, added: torch.dtype | None = None, dropout: float = 0.0, seed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(the gradient of x, of y, and of weight and bias)

    gradient        of the norm's output
    total_gradient  of the sum; None if nothing else read it
    added           dtype of y; None if nothing was added: the gradient of y is then empty
    """
    width = total.shape[-1]
    rows = total.numel() // width
    programs = min(BACKWARD_PROGRAMS, rows)
    dx, dy, sums = empty_gradients(total, weight, added)
    partial = total.new_empty(programs, 2 * width, dtype=torch.float32)
    kernels("norm").backward_rows[(programs,)](
        gradient.contiguous(), None if total_gradient is None else total_gradient.contiguous(), total.contiguous(),
        mean, scale, weight, seed, dx, None if added is None else dy, partial, rows, width,
        DROPOUT=dropout, CENTRED=centred, **tile_of(width, 1024),
    )  # fmt: skip
    kernels("norm").sum_partial[(-(-2 * width // 16),)](partial, sums, programs, 2 * width, BLOCK=16, ROWS=64)
    return dx, dy, sums


@norm_backward.register_fake
def _(
    gradient: Tensor, total_gradient: Tensor | None, total: Tensor, mean: Tensor, scale: Tensor, weight: Tensor,
    centred: bool, added: torch.dtype | None = None, dropout: float = 0.0, seed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return empty_gradients(total, weight, added)


def empty_gradients(total: Tensor, weight: Tensor, added: torch.dtype | None) -> tuple[Tensor, Tensor, Tensor]:
    dy = total.new_empty(0) if added is None else total.new_empty(total.shape, dtype=added)
    return total.new_empty(total.shape), dy, weight.new_empty(2, weight.shape[0], dtype=torch.float32)


def tile_of(width: int, numbers: int) -> dict[str, int]:
    """Launch options for a tile of complete rows, about `numbers` numbers, with one warp for each 512 of them."""
    power = max(4, 1 << (width - 1).bit_length())
    rows = max(numbers // 512, numbers // power)
    return {"WIDTH": power, "ROWS": rows, "num_warps": min(16, max(1, rows * power // 512))}


def keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, y, weight, bias, _, centred, dropout, seed, _ = inputs
    total, _, mean, scale, _ = output
    ctx.save_for_backward(total, mean, scale, weight, seed)
    ctx.how, ctx.biased = (centred, y.dtype, dropout), bias is not None
    ctx.set_materialize_grads(False)  # nothing reads the last sum: do not write a gradient of zeros for it


def differentiate(
    ctx: Any, total_gradient: Tensor | None, gradient: Tensor | None, *_: Any
) -> tuple[Tensor | None, ...]:
    total, mean, scale, weight, seed = ctx.saved_tensors
    gradient = torch.zeros_like(total) if gradient is None else gradient
    dx, dy, sums = norm_backward(gradient, total_gradient, total, mean, scale, weight, *ctx.how, seed)
    return dx, dy, sums[0], sums[1] if ctx.biased else None, *[None] * 5


forward.register_autograd(differentiate, setup_context=keep_for_backward)
