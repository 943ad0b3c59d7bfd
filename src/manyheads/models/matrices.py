"""The hidden matrices of a model: which parameters are linear maps between hidden states, and how many maps lie in each."""

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from manyheads.nn import FeedForward, MultiHeadAttention

__all__ = ["matrices_of"]


def matrices_of(module: nn.Module) -> Iterator[tuple[Tensor, Sequence[int]]]:
    """(matrix, rows of each map in it) of a layer itself, not of the layers inside it.

    Maps lie one above the other: queries, keys and values; the two inputs of a gate. What is done to a map as a whole, like
    drawing or turning it, is done to each.
    """
    match module:
        case MultiHeadAttention():
            yield module.input.weight, module.sizes
            yield module.output.weight, (module.width,)
        case FeedForward():
            inputs = module.activation.inputs
            yield module.up.weight, (module.up.out_features // inputs,) * inputs
            yield module.down.weight, (module.down.out_features,)
