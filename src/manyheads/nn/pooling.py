"""Pooling: one vector per sequence, from the vectors of its tokens. Padding is ignored.

B sequences · T tokens of the longest · N tokens of all · D width
"""

from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.nn.layout import Layout, Packed, Padded

__all__ = ["POOLINGS", "first_token", "largest_numbers", "mean_token"]


def mean_token(x: Float[Tensor, "*batch D"], layout: Layout) -> Float[Tensor, "B D"]:
    """The mean of the tokens. (Zeros for a sequence without tokens.)"""
    rows, keep = rows_of(x, layout)
    rows = rows.float()  # 16 bits are not enough for sums of many tokens
    if keep is None:
        return rows.mean(1)
    return (rows * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)


def first_token(x: Float[Tensor, "*batch D"], layout: Layout) -> Float[Tensor, "B D"]:
    return rows_of(x, layout)[0][:, 0]


def largest_numbers(x: Float[Tensor, "*batch D"], layout: Layout) -> Float[Tensor, "B D"]:
    """For each component, the largest value of any token."""
    x, keep = rows_of(x, layout)
    return x.amax(1) if keep is None else x.masked_fill(~keep[..., None], -torch.inf).amax(1)


Pooling = Callable[[Tensor, Layout], Tensor]
POOLINGS: dict[str, Pooling] = {"mean": mean_token, "first": first_token, "max": largest_numbers}


def rows_of(x: Float[Tensor, "*batch D"], layout: Layout) -> tuple[Float[Tensor, "B T D"], Bool[Tensor, "B T"] | None]:
    """One sequence per row, and where the tokens are; None = everywhere."""
    if isinstance(layout, Packed):
        return layout.pad(x), layout.padded().keep
    return x, cast(Padded, layout).keep
