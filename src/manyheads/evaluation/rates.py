"""Error rates against one or several references, and perplexity.

exact match        outputs that equal one of their references
word error rate    the others: for a pronouncer, words with a mistake in them
phone error rate   edits needed, by symbol, to the nearest reference, over the symbols of that reference
"""

from collections.abc import Sequence
from math import exp
from typing import Protocol, TypeVar

__all__ = ["edits", "error_rate", "exact_match", "group_references", "mean_loss", "perplexity", "wrong_symbols"]

Item = TypeVar("Item")


def edits(a: Sequence[Item], b: Sequence[Item]) -> int:
    """The fewest insertions, deletions and substitutions that turn one into the other (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]


def exact_match(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Percent of outputs that equal one of their references."""
    return 100 * sum(out in refs for out, refs in zip(outputs, references, strict=True)) / len(outputs)


def error_rate(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Percent of symbols, by the reference with the fewest edits for its length."""
    counts = [wrong_symbols(output, refs) for output, refs in zip(outputs, references, strict=True)]
    return 100 * sum(wrong for wrong, _ in counts) / max(1, sum(length for _, length in counts))


def wrong_symbols(output: str, references: Sequence[str]) -> tuple[int, int]:
    """(edits to the nearest reference, its length)"""
    symbols = output.split()
    counts = [(edits(symbols, reference.split()), len(reference.split())) for reference in references]
    return min(counts, key=lambda count: (count[0] / max(1, count[1]), -count[1]))


def group_references(pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Source → every target it has, in the order of their first appearance."""
    groups: dict[str, list[str]] = {}
    for source, target in pairs:
        groups.setdefault(source, []).append(target)
    return groups


class Surprise(Protocol):
    """How likely a target was, and its length."""

    @property
    def log_probability(self) -> float: ...

    @property
    def tokens(self) -> int: ...


def mean_loss(scores: Sequence[Surprise]) -> float:
    """−log P per piece, the ends included."""
    return -sum(score.log_probability for score in scores) / sum(score.tokens for score in scores)


def perplexity(loss: float) -> float:
    return exp(min(loss, 700))
