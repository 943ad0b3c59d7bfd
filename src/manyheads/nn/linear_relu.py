"""max(0, x·Wᵀ + b) as one matrix product: bias and maximum are applied to what it gives before that is written to memory.

N tokens · D width · F hidden width
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["linear_relu"]


def linear_relu(
    x: Float[Tensor, "*batch D"], weight: Float[Tensor, "F D"], bias: Float[Tensor, " F"]
) -> Float[Tensor, "*batch F"]:
    """As F.relu(F.linear(x, weight, bias)), autocast included."""
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
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
    gradient = gradient * (y > 0)
    return gradient @ weight, gradient.T @ x, gradient.sum(0)


forward.register_autograd(differentiate, setup_context=keep_for_backward)
