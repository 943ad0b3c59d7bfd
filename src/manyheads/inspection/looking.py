"""Where every head of a model looks, on average over many pairs, while the model is made to write each pair's target.

    found = look_over(model, sources, targets, reading, most)
    found[Head("encoder", 4, 0)]["previous"]     the mean weight on the token before the query itself

Each is a mean over all queries of all pairs that have a choice: a query that may look at only one key says nothing
about its head.

    previous, same, next    over the queries that have such a token and may look at it; not for cross-attention
    ends                    weight on begin and end
    aligned, aligned_read   weight on the source piece that a target piece is aligned with, in the step that writes it
                            and in the step that reads it. The alignment is the model's best (`reading`).
                            Cross-attention only
    entropy                 in nats; evenness: as a share of the entropy of uniform attention to all visible keys
    distance                in tokens; for cross-attention, from where an even pace would be

A number that no query has is left out.

B pairs · H heads · T queries · S keys · N queries that have a number
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.decoding.alignment import read_weights
from manyheads.decoding.batching import batches_by_length, evaluating, pad
from manyheads.decoding.reading import Reading
from manyheads.inspection.sides import NAMES
from manyheads.inspection.summaries import BESIDE, by_row
from manyheads.inspection.switches import Head
from manyheads.inspection.trace import KINDS, attentions
from manyheads.models.transformer import Transformer
from manyheads.nn.masks import Window, trim, within
from manyheads.text.tokenizer import BEGIN

__all__ = ["ALIGNED", "Looks", "look_over"]

Looks = dict[str, float]
ALIGNED = ("aligned", "aligned_read")
"""Weights of the step that writes a piece, and of the step that reads it."""


def look_over(
    model: Transformer, sources: Sequence[list[int]], targets: Sequence[list[int]], reading: Reading, most: int
) -> dict[Head, Looks]:
    """The means of every head. Sources have an end, targets no begin and no end. Each side is cut to `most` tokens."""
    cut = [(source[:most], [BEGIN, *target][:most]) for source, target in zip(sources, targets, strict=True)]
    sums: dict[tuple[str, int, str], np.ndarray] = {}
    counts: defaultdict[tuple[str, int, str], int] = defaultdict(int)
    for (source, target), layers in watched(model, cut):
        for place, values in numbers_of(model, source, target, layers, reading):
            sums[place] = sums.get(place, 0) + values.sum(1)
            counts[place] += values.shape[1]
    found: defaultdict[Head, Looks] = defaultdict(dict)
    for (kind, layer, name), total in sums.items():
        if count := counts[kind, layer, name]:
            for head, value in enumerate(total / count):
                found[Head(kind, layer, head)][name] = float(value)
    return found


Pair = tuple[list[int], list[int]]
Weights = dict[str, list[Float[np.ndarray, "H T S"]]]


@torch.no_grad()
def watched(model: Transformer, pairs: Sequence[Pair], batch: int = 64) -> Iterator[tuple[Pair, Weights]]:
    """Yield each pair with the weights of every layer, without padding; in any order."""
    device = model.words.weight.device
    with evaluating(model):
        for numbers in batches_by_length([max(map(len, pair)) for pair in pairs], batch, 4):
            some = [pairs[n] for n in numbers]
            source, target = (pad([pair[side] for pair in some]).to(device) for side in (0, 1))
            weights: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
            memory = model.encode(source, None, weights["encoder"])
            model.states(target, memory, None, weights["decoder"], weights["cross"])
            layers = {kind: [layer.double().cpu().numpy() for layer in weights[kind]] for kind in KINDS}
            for row, (read, written) in enumerate(some):
                shapes = {"encoder": (read, read), "decoder": (written, written), "cross": (written, read)}
                yield (
                    (read, written),
                    {
                        kind: [layer[row, :, : len(queries), : len(keys)] for layer in layers[kind]]
                        for kind, (queries, keys) in shapes.items()
                    },
                )


def numbers_of(
    model: Transformer, source: list[int], target: list[int], weights: Weights, reading: Reading
) -> Iterator[tuple[tuple[str, int, str], Float[np.ndarray, "H N"]]]:
    """Yield ((kind, layer, name of a number), its values) for one pair."""
    for kind, layers in weights.items():
        ends = np.array([token in NAMES for token in (target if kind == "decoder" else source)])
        for layer, attention in enumerate(attentions(model)[kind]):
            seen = seen_by(trim(attention.bounds, *layers[layer].shape[1:]), *layers[layer].shape[1:])
            for name, values in chosen_rows(layers[layer], seen, ends, kind).items():
                yield (kind, layer, name), values
    if len(target) > 1 and len(source) > 1:
        for layer, name, values in aligned(weights["cross"], reading):
            yield ("cross", layer, name), values


@lru_cache(maxsize=256)
def seen_by(window: Window, queries: int, keys: int) -> Bool[np.ndarray, "T S"]:
    """Which keys each query may look at."""
    mask = within(None, window, queries, keys, torch.device("cpu"))
    return np.ones((queries, keys), bool) if mask is None else mask.numpy().reshape(queries, keys)


def chosen_rows(
    weights: Float[np.ndarray, "H T S"], seen: Bool[np.ndarray, "T S"], ends: Bool[np.ndarray, " S"], kind: str
) -> dict[str, Float[np.ndarray, "H N"]]:
    """The numbers of one attention, each for the queries that have it."""
    keys = seen.sum(1)
    free = keys > 1
    numbers = by_row(weights, ends, kind)
    found = {name: numbers[name][:, free] for name in ("entropy", "distance", "ends")}
    found["evenness"] = numbers["entropy"][:, free] / np.log(keys[free])
    for name, step in BESIDE.items() if kind != "cross" else ():
        found[name] = numbers[name][:, free & (seen & np.eye(*seen.shape, k=step, dtype=bool)).any(1)]
    return found


def aligned(
    layers: Sequence[Float[np.ndarray, "H T+1 S"]], reading: Reading
) -> Iterator[tuple[int, str, Float[np.ndarray, "H T"]]]:
    """Yield for each layer the weights on the source piece that each target piece is aligned with, never the end."""
    partners = read_weights([torch.from_numpy(layer[..., :-1]) for layer in layers], reading).argmax(1).numpy()
    places = np.arange(len(partners))
    for layer, weights in enumerate(layers):
        for shift, name in enumerate(ALIGNED):
            yield layer, name, weights[:, places + shift, partners]
