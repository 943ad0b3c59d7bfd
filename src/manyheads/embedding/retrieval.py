"""How well vectors find what belongs together: at which rank each text finds its partner among all partners.

Whatever is as near as the partner is ranked before it, so vectors that are all the same find nothing. Candidates that
are not wrong answers do not count: other partners of the same text, and the text itself.

N pairs · C distinct partners · D width
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jaxtyping import Float

from manyheads.text.corpus import Pair

__all__ = ["Embed", "Ranks", "partner_ranks", "retrieval_metrics", "unit"]

Ranks = list[int]
Embed = Callable[[list[str]], Float[np.ndarray, "texts D"]]
BLOCK = 512
"""Texts whose cosines to all partners are held at a time."""


def partner_ranks(pairs: Sequence[Pair], embed: Embed, others: Iterable[str] = ()) -> Ranks:
    """The rank of each pair's partner, counted from 1. `others`: more texts to find it among."""
    texts = list(dict.fromkeys(text for text, _ in pairs))
    candidates = list(dict.fromkeys([*(partner for _, partner in pairs), *others]))
    vectors, there = unit(embed(texts)), unit(embed(candidates))
    numbers = {candidate: n for n, candidate in enumerate(candidates)}
    right = defaultdict(set)
    for text, partner in pairs:
        right[text].add(numbers[partner])
    found: dict[Pair, int] = {}
    for start in range(0, len(texts), BLOCK):
        cosines = vectors[start : start + BLOCK] @ there.T
        for text, row in zip(texts[start : start + BLOCK], cosines, strict=True):
            beside = sorted(right[text] | ({numbers[text]} if text in numbers else set()))
            for n in right[text]:
                nearer = ~(row < row[n])  # NaN counts as nearer
                found[text, candidates[n]] = 1 + int(nearer.sum() - nearer[beside].sum())
    return [found[pair] for pair in pairs]


def retrieval_metrics(ranks: Ranks) -> dict[str, float]:
    """In percent: the mean of 1 / rank, and how often the partner comes first."""
    first, mean = sum(rank == 1 for rank in ranks), sum(1 / rank for rank in ranks)
    return {"mrr": 100 * mean / len(ranks), "accuracy_at_1": 100 * first / len(ranks)}


def unit(vectors: Float[np.ndarray, "texts D"]) -> Float[np.ndarray, "texts D"]:
    """Vectors of length 1: their products are cosines."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
