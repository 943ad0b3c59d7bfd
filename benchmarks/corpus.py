"""Made-up sentence pairs as long as those of talks, and padded batches of them.

Lengths count every token that is computed, including the end of the source and the begin or the end of the target.
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
"""The ids below it are padding, begin and end."""


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
    """Lengths of pairs that have about `target_tokens` target tokens together.

    The length of a source is lognormal(3.1, 0.55), that of its target 0.85 to 1.15 times as much, plus 1.
    """
    random = np.random.default_rng(seed)
    pairs = max(1, round(target_tokens / 26.6))  # the mean length of a target
    sources = np.clip(np.rint(random.lognormal(3.1, 0.55, pairs)), SHORTEST, LONGEST).astype(np.int64)
    targets = np.rint(sources * random.uniform(0.85, 1.15, pairs)).astype(np.int64) + 1
    return Lengths(sources, targets)


def draw_words(lengths: Numbers, vocabulary: int, seed: int) -> Rows:
    """Random words, one fewer than each length: a begin or an end is added to them."""
    words = lengths - 1
    ids = np.random.default_rng(seed).integers(FIRST_WORD, vocabulary, int(words.sum()))
    return Rows(ids, np.cumsum(words) - words, words)


# ── what must be computed ───────────────────────────────────────────────────────────────────────────────────────────


def multiply_adds(config: TransformerConfig, vocabulary: int, pairs: Lengths) -> int:
    """Multiply-adds of one forward pass over the pairs, of real tokens alone: padding is not work."""
    counts = Counter(zip(pairs.sources.tolist(), pairs.targets.tolist(), strict=True))
    return sum(
        times * transformer_cost(config, vocabulary, source_length=s, target_length=t).multiply_adds.total()
        for (s, t), times in counts.items()
    )


def share_of_peak(forward_multiply_adds: float, seconds: float) -> float:
    """The share of `PEAK`: a multiply-add is two operations, a training step as much as three forward passes."""
    return 2 * 3 * forward_multiply_adds / seconds / PEAK


# ── padded batches ──────────────────────────────────────────────────────────────────────────────────────────────────


def sorted_batches(pairs: Lengths, tokens: int) -> list[Numbers]:
    """Rows of batches of similar lengths, with at most `tokens` target tokens each: little padding, many shapes."""
    order = np.lexsort((pairs.sources, pairs.targets))
    cuts = cut(pairs.targets[order], tokens)
    return [order[a:b] for a, b in pairwise(cuts)]


def evenly(batches: Sequence[Numbers], most: int) -> list[Numbers]:
    """At most `most` batches, spread from the shortest to the longest: an epoch in less time."""
    if len(batches) <= most:
        return list(batches)
    # The middle of each of `most` stretches: this leaves out the last batch of an epoch, which is not full.
    return [batches[(2 * n + 1) * len(batches) // (2 * most)] for n in range(most)]


def best_bounds(longest: Numbers, shapes: int, multiple: int = 8) -> tuple[int, ...]:
    """The `shapes` lengths to pad to that waste the least. The last has room for the longest pair."""
    last = -(-int(longest.max()) // multiple) * multiple
    counts = np.bincount(-(-longest // multiple), minlength=last // multiple + 1)  # by the multiples that they need
    below = np.concatenate([[0], counts.cumsum()])

    def room(bounds: tuple[int, ...]) -> int:
        ends = [b // multiple for b in bounds]
        return sum(end * int(below[end + 1] - below[start + 1]) for start, end in pairwise([-1, *ends]))

    choices = range(multiple, last, multiple)
    some = min(shapes - 1, len(choices))
    return min(((*rest, last) for rest in combinations(choices, some)), key=room)


def fixed_batches(pairs: Lengths, tokens: int, shapes: int, most: int) -> list[tuple[Numbers, int]]:
    """(rows, length that both sides are padded to), in few shapes; each batch has about `tokens` real target tokens.

    Each shape is about as frequent as in an epoch, and has at least one batch.
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
    """The pairs in `rows`, each side padded to its longest sentence, or to `to`."""
    batch = pad_pairs(sources.some(rows), targets.some(rows))  # type: ignore[arg-type]
    if to is None:
        return batch
    return batch.with_tensors(F.pad(ids, (0, to - ids.shape[1]), value=PADDING) for ids in batch.tensors())
