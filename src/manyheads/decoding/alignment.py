"""Which words of a source and a target belong together, from the weights of the cross-attention.

The weights of pieces are summed over the pieces of words. Every target word is linked to the source word that it looked at
most, and every source word to the target word that looked at it most. The end of the source is no word: what looks there
is not linked to it.

B pairs · H heads · T target pieces · S source pieces · U target words · V source words
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.links import Link
from manyheads.decoding.reading import Reading
from manyheads.models.transformer import Transformer
from manyheads.text.tokenizer import BEGIN
from manyheads.text.units import Units

__all__ = ["cross_weights", "link_words", "read_weights"]


def cross_weights(
    model: Transformer, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> list[Float[Tensor, "B H T+1 S"]]:
    """For each layer, every head's weights while a model is made to write a target. Row 0 reads the begin, the last row the
    last target piece."""
    begin = torch.full_like(target[:, :1], BEGIN)
    weights: list[Tensor] = []
    model.decode(torch.cat([begin, target], 1), model.encode(source), None, None, weights)
    return weights


def read_weights(layers: Sequence[Float[Tensor, "H T+1 S"]], reading: Reading) -> Float[Tensor, "T S"]:
    """For each target piece, how much each source piece was looked at."""
    layer = layers[reading.layer]
    chosen = layer.mean(0) if reading.head is None else layer[reading.head]
    return chosen[reading.shift : len(chosen) - 1 + reading.shift]


def link_words(weights: Float[Tensor, "T S"], source: Units, target: Units) -> tuple[Link, ...]:
    """Links of words, from the weights of pieces and the words that these are in."""
    sums = member(target).T @ weights.double().cpu() @ member(source)
    if 0 in sums.shape:
        return ()
    by_target = {(int(s), t) for t, s in enumerate(sums.argmax(1)) if sums[t, s] > 0}
    by_source = {(s, int(t)) for s, t in enumerate(sums.argmax(0)) if sums[t, s] > 0}
    return tuple(sorted(by_target | by_source))


def member(units: Units) -> Float[Tensor, "pieces units"]:
    """1 where a piece is part of a word."""
    count = 1 + max((unit for unit in units if unit is not None), default=-1)
    matrix = torch.zeros(len(units), count, dtype=torch.float64)
    for piece, unit in enumerate(units):
        if unit is not None:
            matrix[piece, unit] = 1
    return matrix
