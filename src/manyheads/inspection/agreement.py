"""Do two ways to weigh the same pieces put them in the same order? Spearman's rank correlation, row by row.

1: the same order; 0: nothing in common; −1: the opposite. Signed numbers are ranked by absolute value.

R rows · n pieces
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["agreement", "ranks"]


def agreement(
    one: Float[np.ndarray, "R n"], other: Float[np.ndarray, "R n"], seen: Bool[np.ndarray, "R n"]
) -> float | None:
    """The mean over the rows that have an order: at least two visible pieces, not all alike. None if no row has."""
    found = [
        correlation(ranks(np.abs(a[here])), ranks(np.abs(b[here]))) for a, b, here in zip(one, other, seen, strict=True)
    ]
    told = [value for value in found if value is not None]
    return float(np.mean(told)) if told else None


def correlation(one: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"]) -> float | None:
    if len(one) < 2 or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def ranks(values: Sequence[float] | Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Ranks, from 1 for the smallest; ties share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]
