"""Rotary positions: rotate each pair of a query's or key's components by an angle proportional to its position.

The product of a rotated query and a rotated key then depends only on their distance:
⟨R(m)q, R(n)k⟩ = ⟨q, R(n−m)k⟩. With two axes (images), half of the width is rotated by the row and half by the column.

Which components form a pair is a matter of convention, and weights need the one that they were trained with:

    half-split    (0,K/2) (1,K/2+1) …    as in most language models, and faster; within each axis' part of the width
    interleaved   (0,1) (2,3) …          as in the paper

H heads · K key width · A axes
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.errors import OptionError, TensorError
from manyheads.nn.checks import check_size
from manyheads.nn.positions import angles

__all__ = ["Rotary", "rotate"]


def rotate(
    x: Float[Tensor, "*batch H K"], angle: Float[Tensor, "*#batch K//2"], *, interleaved: bool
) -> Float[Tensor, "*batch H K"]:
    """Rotate pair i of every head by `angle[..., i]`."""
    cos, sin = angle.cos().unsqueeze(-2).to(x.dtype), angle.sin().unsqueeze(-2).to(x.dtype)
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Rotary(nn.Module):
    """Rotary positions with one axis (text) or two (images). Nothing is learned; no table limits the length."""

    def __init__(self, key_width: int, *, axes: int = 1, base: float = 10_000.0, interleaved: bool = False) -> None:
        super().__init__()
        if check_size("axes", axes) and check_size("key_width", key_width) % (2 * axes):
            raise OptionError(
                f"rotary positions turn pairs on {axes} axes: the key width must be a multiple of {2 * axes}, "
                f"got {key_width}"
            )
        self.key_width, self.axes, self.base, self.interleaved = key_width, axes, base, interleaved

    def forward(
        self, x: Float[Tensor, "*batch H K"], positions: Int[Tensor, "*shape"] | None = None
    ) -> Float[Tensor, "*batch H K"]:
        """Rotate the heads of x.

        `positions` broadcast to the shape of x without heads and width; with several axes they are (…, T, A).
        None = 0, 1, 2 …
        """
        positions = torch.arange(x.shape[-3], device=x.device) if positions is None else positions
        if x.shape[-1] != self.key_width:
            raise TensorError(f"rotary positions for width {self.key_width} cannot turn heads of width {x.shape[-1]}")
        if self.axes > 1 and (positions.ndim < 2 or positions.shape[-1] != self.axes):
            raise TensorError(
                f"rotary positions on {self.axes} axes need positions of shape (..., T, {self.axes}), got {tuple(positions.shape)}",
                hint="for images, pass the layout Padded.grid(batch, rows, columns)",
            )
        width = self.key_width // self.axes
        each = (positions,) if self.axes == 1 else positions.unbind(-1)
        parts = [
            rotate(part, angles(where, width, self.base), interleaved=self.interleaved)
            for part, where in zip(x.split(width, dim=-1), each, strict=True)
        ]
        return parts[0] if self.axes == 1 else torch.cat(parts, dim=-1)

    def extra_repr(self) -> str:
        return f"{self.key_width}, axes={self.axes}, base={self.base}, interleaved={self.interleaved}"
