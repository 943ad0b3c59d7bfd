"""Sentence pairs as long as those of talks, made up, and how they are cut into batches for those who pad.

Lengths count every token that is computed: the end of the source, the begin or the end of the target.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import torch.nn.functional as F

from manyheads.models.config import TransformerConfig
from manyheads.models.cost import transformer_cost
from manyheads.tasks.pairs import PairBatch, pad_pairs
from manyheads.text.batches import cut
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import PADDING
from manyheads.text.turns import Numbers

__all__ = [
    "PEAK", "Lengths", "best_bounds", "draw_lengths", "draw_words", "evenly", "fixed_batches", "multiply_adds", "pad_batch",
    "share_of_peak", "sorted_batches",
]  # fmt: skip

PEAK = 790e12
"""Floating-point operations a second that a large bf16 matrix product reaches on an H200."""

SHORTEST, LONGEST = 3, 120
FIRST_WORD = 3
"""Ids below it are padding, begin and end."""


@dataclass(frozen=True, eq=False)
class Lengths:
    """Tokens of each pair."""

    sources: Numbers
    targets: Numbers

    def __len__(self) -> int:
        return len(self.targets)

    def some(self, rows: Numbers) -> "Lengths":
        return Lengths(self.sources[rows], self.targets[rows])


def draw_lengths(target_tokens: int, seed: int) -> Lengths:
    """Pairs of about so many target tokens: the source lognormal(3.1, 0.55), the target 0.85 to 1.15 of it plus 1."""
    random = np.random.default_rng(seed)
    pairs = max(1, round(target_tokens / 26.6))  # the mean length of a target
    sources = np.clip(np.rint(random.lognormal(3.1, 0.55, pairs)), SHORTEST, LONGEST).astype(np.int64)
    targets = np.rint(sources * random.uniform(0.85, 1.15, pairs)).astype(np.int64) + 1
    return Lengths(sources, targets)


def draw_words(lengths: Numbers, vocabulary: int, seed: int) -> Rows:
    """For each length one word less: a begin or an end comes to it."""
    words = lengths - 1
    ids = np.random.default_rng(seed).integers(FIRST_WORD, vocabulary, int(words.sum()))
    return Rows(ids, np.cumsum(words) - words, words)


# ── what must be computed ───────────────────────────────────────────────────────────────────────────────────────────


def multiply_adds(config: TransformerConfig, vocabulary: int, pairs: Lengths) -> int:
    """Of one forward pass over the pairs: real tokens alone, padding is nobody's work."""
    counts = Counter(zip(pairs.sources.tolist(), pairs.targets.tolist(), strict=True))
    return sum(
        times * transformer_cost(config, vocabulary, source_length=s, target_length=t).multiply_adds.total()
        for (s, t), times in counts.items()
    )


def share_of_peak(forward_multiply_adds: float, seconds: float) -> float:
    """Two operations a multiply-add, three forward passes a training step."""
    return 2 * 3 * forward_multiply_adds / seconds / PEAK


# ── batches for those who pad ───────────────────────────────────────────────────────────────────────────────────────


def sorted_batches(pairs: Lengths, tokens: int) -> list[Numbers]:
    """Rows of batches of like lengths, of at most so many target tokens: little padding, many shapes."""
    order = np.lexsort((pairs.sources, pairs.targets))
    cuts = cut(pairs.targets[order], tokens)
    return [order[a:b] for a, b in pairwise(cuts)]


def evenly(batches: Sequence[Numbers], most: int) -> list[Numbers]:
    """Some of the batches, from the shortest to the longest: what a whole epoch meets, in less time."""
    if len(batches) <= most:
        return list(batches)
    # The middle of each of `most` stretches: the last batch of an epoch, which is not full, is not among them.
    return [batches[(2 * n + 1) * len(batches) // (2 * most)] for n in range(most)]


def best_bounds(longest: Numbers, shapes: int, multiple: int = 8) -> tuple[int, ...]:
    """Up to which lengths to pad, if there may be so many shapes: those that waste least. The last holds the longest."""
    last = -(-int(longest.max()) // multiple) * multiple
    counts = np.bincount(-(-longest // multiple), minlength=last // multiple + 1)  # by how many multiples they need
    below = np.concatenate([[0], counts.cumsum()])

    def room(bounds: tuple[int, ...]) -> int:
        ends = [b // multiple for b in bounds]
        return sum(end * int(below[end + 1] - below[start + 1]) for start, end in pairwise([-1, *ends]))

    choices = range(multiple, last, multiple)
    some = min(shapes - 1, len(choices))
    return min(((*rest, last) for rest in combinations(choices, some)), key=room)


def fixed_batches(pairs: Lengths, tokens: int, shapes: int, most: int) -> list[tuple[Numbers, int]]:
    """(rows, length that both sides are padded to), in few shapes; each batch has about `tokens` real target tokens.

    Of each shape there are about as many batches as an epoch has, and at least one.
    """
    longest = np.maximum(pairs.sources, pairs.targets)
    bounds = best_bounds(longest, shapes)
    found = []
    for low, high in pairwise((0, *bounds)):
        rows = np.flatnonzero((low < longest) & (longest <= high))
        size = min(len(rows), max(1, round(tokens / pairs.targets[rows].mean()))) if len(rows) else 0
        share = pairs.targets[rows].sum() / pairs.targets.sum()
        times = min(len(rows) // size, max(1, round(most * share))) if size else 0
        found += [(rows[n * size : (n + 1) * size], high) for n in range(times)]
    return found


def pad_batch(sources: Rows, targets: Rows, rows: Numbers, to: int | None = None) -> PairBatch:
    """Some pairs, both sides filled up to the longest of them, or to `to`."""
    batch = pad_pairs(sources.some(rows), targets.some(rows))  # type: ignore[arg-type]
    if to is None:
        return batch
    return batch.with_tensors(F.pad(ids, (0, to - ids.shape[1]), value=PADDING) for ids in batch.tensors())
