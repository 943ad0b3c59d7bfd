"""A model whose matrices are held in 8 bits, to compute with on a CPU (nn/eightbits.py). It cannot be trained.

D input width · F output width
"""

from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.nn.eightbits import EightBits
from manyheads.nn.linear import Linear
from manyheads.nn.table import Table

__all__ = ["hold_in_eight_bits"]

WORDS = ("words", "target_words")
"""The tables of words, by their names. Others are small: positions, kinds of text."""


class HasEightBits(nn.Module):
    """A module whose weight is a matrix in 8 bits, kept as two buffers."""

    def __init__(self, weight: EightBits) -> None:
        super().__init__()
        self.register_buffer("numbers", weight.numbers)
        self.register_buffer("scales", weight.scales)

    @property
    def weight(self) -> EightBits:
        return EightBits(self.numbers, self.scales)


class EightBitLinear(HasEightBits):
    def __init__(self, layer: Linear) -> None:
        super().__init__(EightBits.of(layer.weight))
        self.bias = layer.bias

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch F"]:
        return self.weight.product(x, self.bias)


class EightBitTable(HasEightBits):
    def __init__(self, table: Table) -> None:
        super().__init__(EightBits.of(table.weight))

    def forward(self, ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch D"]:
        return self.weight.rows(ids)


def hold_in_eight_bits(model: nn.Module) -> None:
    """Replace the linear layers of a model, and its tables of words, by such that hold 8 bits and only compute.

    What is left in 32 bits is small: norms, biases, positions. (And matrices of one column: PyTorch returns memory that
    nobody has written for their products.)
    """
    for name, part in list(model.named_children()):
        if isinstance(part, Linear) and part.in_features > 1:
            setattr(model, name, EightBitLinear(part))
        elif isinstance(part, Table) and name in WORDS and part.embedding_dim > 1:
            setattr(model, name, EightBitTable(part))
        else:
            hold_in_eight_bits(part)
