"""max(0, x·Wᵀ + b) as one matrix product: bias and maximum are applied before its result is written to memory.

In the backward pass, the gradient is masked and summed for the bias in one pass (relu_kernels.py).

N tokens · D width · F hidden width
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.nn.add_norm import half_of
from manyheads.nn.kernels import kernels

__all__ = ["linear_relu"]

PROGRAMS = 1056
"""Eight per multiprocessor of a large GPU."""

TILE = {"ROWS": 8, "COLUMNS": 256, "num_warps": 4}


def linear_relu(
    x: Float[Tensor, "*batch D"], weight: Float[Tensor, "F D"], bias: Float[Tensor, " F"]
) -> Float[Tensor, "*batch F"]:
    """The same as F.relu(F.linear(x, weight, bias)), under autocast too."""
    dtype = half_of(x)
    y = forward(x.flatten(0, -2).to(dtype), weight.to(dtype), bias.to(dtype))
    return y.unflatten(0, x.shape[:-1])


@torch.library.custom_op("manyheads::linear_relu", mutates_args=())
def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch._addmm_activation(bias, x, weight.T)


@forward.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


def keep_for_backward(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight, output)


def differentiate(ctx: Any, gradient: Float[Tensor, "N F"]) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, y = ctx.saved_tensors
    gradient, sums = relu_backward(gradient, y)
    return gradient @ weight, gradient.T @ x, sums


forward.register_autograd(differentiate, setup_context=keep_for_backward)


@torch.library.custom_op("manyheads::relu_backward", mutates_args=(), device_types="cpu")
def relu_backward(gradient: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(the gradient where y is positive and 0 elsewhere, its sum over tokens)"""
    masked = gradient * (y > 0)
    return masked, masked.sum(0)


@relu_backward.register_kernel("cuda")
def relu_backward_in_one_pass(gradient: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """`relu_backward` on a GPU. Sums are in float32 and in a fixed order: bitwise reproducible."""
    masked, sums = empty(gradient, y)
    tokens, hidden = y.shape
    columns = -(-hidden // TILE["COLUMNS"])
    programs = min(max(1, PROGRAMS // columns), -(-tokens // TILE["ROWS"]))
    partial = y.new_empty(programs, hidden, dtype=torch.float32)
    kernels("relu").mask_rows[programs, columns](
        gradient.contiguous(), y.contiguous(), masked, partial, tokens, hidden, **TILE
    )
    kernels("relu").sum_partial[(-(-hidden // 16),)](partial, sums, programs, hidden, BLOCK=16, ROWS=64)
    return masked, sums


@relu_backward.register_fake
def empty(gradient: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return y.new_empty(y.shape), y.new_empty(y.shape[1])
