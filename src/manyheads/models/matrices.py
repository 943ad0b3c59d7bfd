"""The hidden matrices of a model: the parameters that are linear maps between hidden states, and the maps in each."""

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from manyheads.nn import FeedForward, MultiHeadAttention

__all__ = ["matrices_of"]


def matrices_of(module: nn.Module) -> Iterator[tuple[Tensor, Sequence[int]]]:
    """(matrix, rows of each map in it) of the layer itself, not of the layers inside it.

    Maps are stacked along the rows: queries, keys and values; the two inputs of a gate. An operation on a complete map,
    like initialising or orthogonalising it, applies to each.
    """
    match module:
        case MultiHeadAttention():
            yield module.input.weight, module.sizes
            yield module.output.weight, (module.width,)
        case FeedForward():
            inputs = module.activation.inputs
            yield module.up.weight, (module.up.out_features // inputs,) * inputs
            yield module.down.weight, (module.down.out_features,)
