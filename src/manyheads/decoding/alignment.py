"""Which words of a source and a target belong together, from the weights of the cross-attention.

The weights of pieces are summed over the pieces of words. Every target word is linked to the source word that it looked
at most, and every source word to the target word that looked at it most. The end of the source is not a word: what
looks there is not linked to it.

B pairs · H heads · T target pieces · S source pieces · U target words · V source words
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.batching import batches_by_length, evaluating, pad
from manyheads.decoding.links import Link
from manyheads.decoding.reading import Reading
from manyheads.decoding.textmodel import TextModel
from manyheads.models.transformer import Transformer
from manyheads.text.tokenizer import BEGIN
from manyheads.text.units import Units

__all__ = ["align_ids", "cross_weights", "link_words", "read_weights", "watch"]


def align_ids(
    model: TextModel, sources: Sequence[list[int]], targets: Sequence[list[int]], reading: Reading, batch: int = 64
) -> list[tuple[Link, ...]]:
    """Links between the words that ids spell: sources with an end, targets without."""
    found: list[tuple[Link, ...]] = [()] * len(sources)
    for n, layers in watch(model.single, sources, targets, model.longest_aligned, batch):
        weights = read_weights(layers, reading)
        target, source = weights.shape
        words = model.vocabulary.source.units(sources[n][:source]), model.vocabulary.target.units(targets[n][:target])
        found[n] = link_words(weights, *words)
    return found


def cross_weights(
    model: Transformer, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> list[Float[Tensor, "B H T+1 S"]]:
    """For each layer, every head's weights while the model is made to write a target.

    Row 0 reads the begin, the last row the last target piece.
    """
    begin = torch.full_like(target[:, :1], BEGIN)
    weights: list[Tensor] = []
    model.decode(torch.cat([begin, target], 1), model.encode(source), None, None, weights)
    return weights


@torch.no_grad()
def watch(
    model: Transformer, sources: Sequence[list[int]], targets: Sequence[list[int]], most: int, batch: int = 64
) -> Iterator[tuple[int, list[Float[Tensor, "H T+1 S"]]]]:
    """Yield (index of a pair, the cross-attention of each layer) for pairs with something on both sides, in any order.

    Sources have an end, targets none; the weights leave the end out. At most `most` pieces are read, the end or begin
    included.
    """
    cut = [(source[:most], target[: most - 1]) for source, target in zip(sources, targets, strict=True)]
    there = [n for n, (source, target) in enumerate(cut) if len(source) > 1 and target]
    device = model.words.weight.device
    with evaluating(model):
        for rows in batches_by_length([max(map(len, cut[n])) for n in there], batch, 4):
            numbers = [there[row] for row in rows]
            source, target = (pad([cut[n][side] for n in numbers]).to(device) for side in (0, 1))
            layers = cross_weights(model, source, target)
            for row, n in enumerate(numbers):
                written, read = len(cut[n][1]) + 1, len(sources[n]) - 1
                yield n, [layer[row, :, :written, :read] for layer in layers]


def read_weights(layers: Sequence[Float[Tensor, "H T+1 S"]], reading: Reading) -> Float[Tensor, "T S"]:
    """For each target piece, how much it looked at each source piece."""
    layer = layers[reading.layer]
    chosen = layer.mean(0) if reading.head is None else layer[reading.head]
    return chosen[reading.shift : len(chosen) - 1 + reading.shift]


def link_words(weights: Float[Tensor, "T S"], source: Units, target: Units) -> tuple[Link, ...]:
    """Links between words, from the weights of pieces and the words that these belong to."""
    sums = member(target).T @ weights.double().cpu() @ member(source)
    if 0 in sums.shape:
        return ()
    by_target = {(int(s), t) for t, s in enumerate(sums.argmax(1)) if sums[t, s] > 0}
    by_source = {(s, int(t)) for s, t in enumerate(sums.argmax(0)) if sums[t, s] > 0}
    return tuple(sorted(by_target | by_source))


def member(units: Units) -> Float[Tensor, "pieces units"]:
    """A matrix with 1 where a piece is part of a word."""
    count = 1 + max((unit for unit in units if unit is not None), default=-1)
    matrix = torch.zeros(len(units), count, dtype=torch.float64)
    for piece, unit in enumerate(units):
        if unit is not None:
            matrix[piece, unit] = 1
    return matrix
