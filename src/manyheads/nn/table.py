"""A table of vectors, one for each word or position."""

from torch import nn

__all__ = ["Table"]


class Table(nn.Embedding):
    """`nn.Embedding`, except that the meta device draws no random numbers.

    A model that will be read from a file is built there. To draw numbers there, PyTorch would import its compiler,
    which takes a second.
    """

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()
