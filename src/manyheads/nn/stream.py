"""A pre-norm stack as a stream of hidden states and what is still to be added to it.

    plain     x = x + dropout(layer(norm(x)))                    sublayer by sublayer
    stream    x, h = add_norm(x, y);  y = layer(h)               the sum waits for the norm that reads it

Dropout, sum and norm are then one kernel, also from one block to the next (add_norm.py). A block that is given a stream gives one; the
norm at the end of the stack adds what is left. The recorded step of training turns it on; everyone else has tensors.

D width
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.nn.add_norm import add_norm

__all__ = ["Stream", "begin", "flow"]


class Stream(NamedTuple):
    """
    x        the sum so far
    seed     of the next mask
    y        what the last sublayer gave; None in front of the first
    dropout  the share of y that is dropped before it is added
    """

    x: Float[Tensor, "*batch D"]
    seed: Int[Tensor, ""]
    y: Float[Tensor, "*batch D"] | None = None
    dropout: float = 0.0


def begin(x: Float[Tensor, "*batch D"]) -> Stream:
    """One draw for the whole stack: every kernel leaves a seed for the next."""
    return Stream(x, torch.randint(2**62, (), device=x.device))


def flow(stream: Stream, norm: Any) -> tuple[Stream, Float[Tensor, "*batch D"]]:
    """Add what is left to add: (the stream without it, the norm of it). `norm` is a layer norm or an RMS norm."""
    x, seed, y, dropout = stream
    if y is None:
        return stream, norm(x)
    centred, bias = isinstance(norm, nn.LayerNorm), getattr(norm, "bias", None)
    x, normed, seed = add_norm(x, y, norm.weight, bias, norm.eps, centred=centred, dropout=dropout, seed=seed)
    return Stream(x, seed), normed
