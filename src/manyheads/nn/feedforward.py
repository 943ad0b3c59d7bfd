"""Position-wise feed-forward: the same two-layer network at every position.

    FFN(x) = down(activation(up(x)))

Works on (..., D), whatever the layout of the batch.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.errors import choose
from manyheads.nn.checks import check_size
from manyheads.nn.dropout import Dropout
from manyheads.nn.linear import Linear
from manyheads.nn.linear_relu import linear_relu
from manyheads.nn.unchanged import unchanged

__all__ = ["ACTIVATIONS", "Activation", "FeedForward", "swiglu"]


def swiglu(x: Float[Tensor, "*batch up"]) -> Float[Tensor, "*batch up//2"]:
    """silu(a) · b, where a and b are the two halves of x."""
    a, b = x.chunk(2, dim=-1)
    return F.silu(a) * b


def relu(x: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden"]:
    """ReLU, in place when no gradient is recorded.

    Nothing else needs the output of `up`, and on a CPU a new tensor costs more than the maximum. With a gradient, it
    would have to be copied: a layer's output for several sentences is a view of rows.
    """
    return F.relu(x) if torch.is_grad_enabled() else F.relu_(x)


class Activation(NamedTuple):
    apply: Callable[[Tensor], Tensor]
    inputs: int = 1  # how many inputs of the hidden width it reads: 2 if gated


ACTIVATIONS = {
    "relu": Activation(relu),
    "gelu": Activation(F.gelu),
    "gelu-tanh": Activation(partial(F.gelu, approximate="tanh")),
    "silu": Activation(F.silu),
    "swiglu": Activation(swiglu, inputs=2),
}


class FeedForward(nn.Module):
    """width → hidden → width, with any of `ACTIVATIONS` in between and dropout on the hidden layer."""

    def __init__(
        self, width: int, hidden: int, *, activation: str = "relu", bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.activation = choose("activation", activation, ACTIVATIONS)
        self.up = Linear(check_size("width", width), check_size("hidden", hidden) * self.activation.inputs, bias=bias)
        self.dropout = Dropout(dropout) if dropout else unchanged
        self.down = Linear(hidden, width, bias=bias)
        self.is_biased_relu = bias and activation == "relu"

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        return self.down(self.dropout(self.rise(x)))

    def rise(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch hidden"]:
        if self.is_biased_relu and x.is_cuda and torch.compiler.is_compiling():
            return linear_relu(x, self.up.weight, self.up.bias)  # the compiler does not find this by itself
        return self.activation.apply(self.up(x))
