"""What stands in the place of an optional part that a layer does not have, or does not need now.

Small models on a fast GPU wait for Python. Calling a module costs 2 µs, so a part that is not there is a plain function,
not an `nn.Identity`; and a dropout that drops nothing asks nobody.
"""

from collections.abc import Callable

from torch import Tensor, nn

from manyheads.nn.checks import check_probability

__all__ = ["Dropout", "share_dropped", "unchanged"]


def unchanged(x: Tensor, *_: object) -> Tensor:
    return x


class Dropout(nn.Dropout):
    """nn.Dropout, checked when built, that is out of the way when it does not train."""

    def __init__(self, p: float) -> None:
        super().__init__(check_probability("dropout", p))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(input) if self.training else input


def share_dropped(dropout: Callable[[Tensor], Tensor]) -> float:
    """By a `Dropout` as it is now, or by what stands in its place."""
    return dropout.p if isinstance(dropout, Dropout) and dropout.training else 0.0
