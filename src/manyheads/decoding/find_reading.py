"""Find the cross-attention weights that align best, once for a model, without any alignment to learn from.

N links · H heads · T target pieces · S source pieces
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from manyheads.decoding.alignment import read_weights, watch
from manyheads.decoding.reading import Reading, every_reading
from manyheads.decoding.translator import Translator
from manyheads.errors import InputError
from manyheads.modelfolder import find_model
from manyheads.text.corpus import Corpus, Counts, Pair
from manyheads.text.parallel import DEV, read_dev

__all__ = ["find_reading", "foretold", "reading_of"]

ENOUGH = 500
"""Pairs that are looked at. On German to English, a hundred gave the same answer."""


def reading_of(folder: str | Path, translator: Translator, head: str | None = None) -> Reading:
    """What to read an alignment from: `head`, or what the recipe says.

    For a run from before recipes said so, it is found on the development set that the run has kept.
    """
    dev = [find_model(folder) / "data" / name for name in DEV]
    asked = translator.single.config.causal and not translator.recipe.decode.alignment
    if head or not asked or not all(path.is_file() for path in dev):
        return translator.reading(head)
    return find_reading(translator, read_dev([Corpus(tuple(map(str, dev)))], Counts()))


def find_reading(translator: Translator, pairs: Sequence[Pair]) -> Reading:
    """The layer or head whose links predict the target best, on pairs that are spread over those given.

    Weights that link what belongs together link the same pieces again and again. So each target piece is linked to the
    source piece that was looked at most, and a head is scored by the mean log P(target piece | linked source piece),
    with P from the counts of all other links. How often a target piece occurs is the same for every head, so this is,
    up to a constant, the mean pointwise mutual information of linked pieces. Because a link is no evidence for itself,
    heads that link rare pieces at random score low.

    Tried on 32 sentences aligned by hand, German to English, with 500 pairs: it ranks heads as their alignment error
    does (rank correlation 0.92; without leaving links out, 0.89). How sharp the weights are says nothing about that
    (−0.07).
    """
    some = pairs[:: max(1, -(-len(pairs) // ENOUGH))]
    sources, targets = translator.encode_pairs(some)
    config = translator.single.config
    readings = every_reading(config.depth, config.heads)
    linked: list[list[np.ndarray]] = [[] for _ in readings]
    written: list[int] = []
    for n, layers in watch(translator.single, sources, targets, translator.longest_aligned):
        written += targets[n][: layers[0].shape[1] - 1]  # of a very long target, what was looked at
        for reading, links in zip(readings, linked, strict=True):
            links.append(np.array(sources[n])[read_weights(layers, reading).argmax(1).cpu().numpy()])
    if not written:
        raise InputError("finding the attention to read alignments from needs pairs with text on both sides, got none")
    scores = [foretold(np.concatenate(links), np.array(written)) for links in linked]
    return readings[int(np.argmax(scores))]


def foretold(sources: Int[np.ndarray, " N"], targets: Int[np.ndarray, " N"]) -> float:
    """The mean log P(target | source) of N links, each by the counts of the others.

    How often a target occurs at all has the weight of one link, so that what was linked once is not impossible.
    """
    pairs = how_often(np.stack([sources, targets], 1))
    share = how_often(targets) / len(targets)
    return float(np.log((pairs - 1 + share) / how_often(sources)).mean())


def how_often(items: np.ndarray) -> np.ndarray:
    """For each item, how many are equal to it."""
    _, which, counts = np.unique(items, axis=0, return_inverse=True, return_counts=True)
    return counts[which.ravel()]
