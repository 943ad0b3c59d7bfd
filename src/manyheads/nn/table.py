"""A table of vectors, one for each word or place."""

from torch import nn

__all__ = ["Table"]


class Table(nn.Embedding):
    """On the meta device, where a model is built that will be read from a file, no numbers are drawn: PyTorch would import its
    compiler for that, which takes a second."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()
