"""What stands in the place of an optional part that a layer does not have.

A plain function, not an `nn.Identity`: calling a module costs 2 µs, and small models on a fast GPU wait for Python.
"""

from torch import Tensor

__all__ = ["unchanged"]


def unchanged(x: Tensor, *_: object) -> Tensor:
    return x
