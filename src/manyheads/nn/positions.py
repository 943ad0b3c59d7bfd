"""Positions that are added to embeddings. (Rotary positions rotate queries and keys instead: see rotary.py.)

Attention sees a bag of tokens: without positions, "A hit B" and "B hit A" are the same to it.

D model width
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.errors import OptionError, TensorError
from manyheads.nn.layout import Layout
from manyheads.nn.table import Table

__all__ = ["LearnedPositions", "SinusoidalPositions", "sinusoids"]


def angles(positions: Int[Tensor, "*batch"], width: int, base: float) -> Float[Tensor, "*batch {width}//2"]:
    """position · base^(−2i/width) for each pair of components i: from 1 radian per position down to almost 1/base."""
    exponent = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    return positions.unsqueeze(-1) * base**-exponent


def sinusoids(
    positions: Int[Tensor, "*batch"], width: int, *, interleaved: bool = True, base: float = 10_000.0
) -> Float[Tensor, "*batch {width}"]:
    """The paper's table: sin and cos of position / base^(2i/width).

    interleaved   sin cos sin cos …      the paper's formula
    half-split    sin … sin cos … cos    tensor2tensor, Marian
    """
    angle = angles(positions, width, base)
    pair = (angle.sin(), angle.cos())
    return torch.stack(pair, dim=-1).flatten(-2) if interleaved else torch.cat(pair, dim=-1)


class SinusoidalPositions(nn.Module):
    """x + sinusoids. Nothing is learned; no table limits the length."""

    def __init__(self, width: int, *, interleaved: bool = True, base: float = 10_000.0) -> None:
        super().__init__()
        if width % 2:
            raise OptionError(f"sinusoidal positions come in pairs: the width must be even, got {width}")
        self.width, self.interleaved, self.base = width, interleaved, base

    def forward(self, x: Float[Tensor, "*batch D"], layout: Layout) -> Float[Tensor, "*batch D"]:
        return x + sinusoids(layout.positions, self.width, interleaved=self.interleaved, base=self.base).to(x.dtype)


class LearnedPositions(nn.Module):
    """x + a learned vector for each of the first `length` positions."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        if length < 1:
            raise OptionError(f"a table of learned positions needs at least one row, got {length}")
        self.table = Table(length, width)

    def forward(self, x: Float[Tensor, "*batch D"], layout: Layout) -> Float[Tensor, "*batch D"]:
        length = self.table.num_embeddings
        if layout.longest > length:
            raise TensorError(
                f"learned positions end at {length}, got a sequence of {layout.longest} tokens",
                hint="build the model with a longer table, or use sinusoidal or rotary positions",
            )
        return x + self.table(layout.positions)
