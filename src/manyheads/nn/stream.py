"""A pre-norm stack as a stream: hidden states, and the output of the last sublayer, not yet added to them.

    plain     x = x + dropout(layer(norm(x)))                    sublayer by sublayer
    stream    x, h = add_norm(x, y);  y = layer(h)               the sum waits for the norm that reads it

Dropout, sum and norm are then one kernel, across block boundaries too (add_norm.py). A block that is given a stream
returns one; the norm at the end of the stack adds the last output. The recorded training step uses streams; all other
code uses tensors.

D width
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.nn.add_norm import add_norm

__all__ = ["Stream", "begin", "flow"]


class Stream(NamedTuple):
    """Hidden states, and an output that is still to be added to them.

    x        the sum so far
    seed     of the next dropout mask
    y        output of the last sublayer; None before the first
    dropout  share of y that is dropped before it is added
    """

    x: Float[Tensor, "*batch D"]
    seed: Int[Tensor, ""]
    y: Float[Tensor, "*batch D"] | None = None
    dropout: float = 0.0


def begin(x: Float[Tensor, "*batch D"]) -> Stream:
    """The start of a stream. One draw serves the complete stack: every kernel computes the seed of the next."""
    return Stream(x, torch.randint(2**62, (), device=x.device))


def flow(stream: Stream, norm: Any) -> tuple[Stream, Float[Tensor, "*batch D"]]:
    """Add the pending output: (the stream with nothing pending, the norm of its sum).

    `norm` is a layer norm or an RMS norm.
    """
    x, seed, y, dropout = stream
    if y is None:
        return stream, norm(x)
    centred, bias = isinstance(norm, nn.LayerNorm), getattr(norm, "bias", None)
    x, normed, seed = add_norm(x, y, norm.weight, bias, norm.eps, centred=centred, dropout=dropout, seed=seed)
    return Stream(x, seed), normed
