"""What kind of head it is: a few numbers from where it looked in one sentence.

    entropy    how spread its attention is, in nats; 0 = all on one key
    focus      the largest weight of a row
    previous   weight on the token before the query itself; same, next: likewise. Not for cross-attention
    distance   how far away the keys it looks at are, in tokens; for cross-attention, from where an even pace would be
    ends       weight on begin and end, where heads look that have nothing to say

Each is a mean over the queries.

H heads · T queries · S keys
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from manyheads.inspection.inspected import Inspected
from manyheads.inspection.plane import holders, sides_of

__all__ = ["by_row", "summaries", "summarise"]

BESIDE = {"previous": -1, "same": 0, "next": 1}
"""How many tokens the key is after the query."""


def summaries(inspection: Inspected) -> dict[str, list[dict[str, list[float]]]]:
    """For each kind and layer, the numbers of all heads."""
    found: dict[str, list[dict[str, Any]]] = {}
    for kind, planes in inspection.attention.items():
        words, keys = holders(inspection, kind)[1].words, sides_of(inspection, kind)[1]
        ends = np.array([words[piece.word].special for piece in keys])
        layers = (layer.double().cpu().numpy() for layer in planes)
        found[kind] = [
            {name: values.tolist() for name, values in summarise(layer, ends, kind).items()} for layer in layers
        ]
    return found


def summarise(
    weights: Float[np.ndarray, "H T S"], ends: Bool[np.ndarray, " S"], kind: str
) -> dict[str, Float[np.ndarray, " H"]]:
    return {name: values.mean(1) for name, values in by_row(weights, ends, kind).items()}


def by_row(
    weights: Float[np.ndarray, "H T S"], ends: Bool[np.ndarray, " S"], kind: str
) -> dict[str, Float[np.ndarray, "H T"]]:
    """The same numbers for each query, not yet averaged."""
    queries, keys = weights.shape[1:]
    rows, columns = np.arange(queries)[:, None], np.arange(keys)
    pace = (keys - 1) / max(1, queries - 1) if kind == "cross" else 1
    logs = np.log(np.where(weights > 0, weights, 1))
    found = {
        "entropy": -(weights * logs).sum(2),
        "focus": weights.max(2),
        "distance": (weights * np.abs(columns - rows * pace)).sum(2),
        "ends": weights[:, :, ends].sum(2),
    }
    beside = BESIDE if kind != "cross" else {}
    return found | {name: (weights * (columns - rows == step)).sum(2) for name, step in beside.items()}
