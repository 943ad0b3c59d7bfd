"""What each written piece owes to the pieces that were read, by methods that do not ask where heads looked.

    found = attribute(inspection, "integrated-gradients")
    found.source                    (T, S): what row t owes to each source piece
    found.target                    (T, T): … and to each target piece that it has read
    found.agreement["source"]       how far each head of each layer agrees with it, in rank correlation

T rows · S source pieces
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from manyheads.errors import choose
from manyheads.inspection.agreement import agreement
from manyheads.inspection.api import Inspection
from manyheads.inspection.vectors import Pair, Sides, gradient_x_input, integrated_gradients, leave_one_out
from manyheads.inspection.zeroing import value_zeroing

__all__ = ["CHEAP", "METHODS", "Attribution", "attribute"]

CHEAP = ("gradient-x-input", "value-zeroing")
"""What a page on its own is given without being asked: some tenths of a second."""
DIGITS = 6


@dataclass(frozen=True, eq=False)
class Attribution:
    """
    signed      more of it may be for or against what was written, in nats; else rows are shares of 1
    whole       what all vectors change in all, of each row; and how much the sums miss of it at most (integrated gradients)
    agreement   of "source" and "target", for each layer: the mean of its heads, then each head
    """

    method: str
    source: Float[np.ndarray, "T S"]
    target: Float[np.ndarray, "T T"]
    signed: bool
    whole: list[float] | None
    gap: float | None
    agreement: Mapping[str, list[list[float | None]]]

    def as_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "source": rounded(self.source),
            "target": rounded(self.target),
            "signed": self.signed,
            "whole": self.whole,
            "gap": self.gap,
            "agreement": self.agreement,
        }


def rounded(values: Float[np.ndarray, "T n"]) -> list[list[float]]:
    return [[float(f"{value:.{DIGITS}g}") for value in row] for row in values.tolist()]


Found = tuple[Sides, bool, list[float] | None, float | None]
"""(numbers, signed?, whole, gap)"""


def integrated(pair: Pair) -> Found:
    found = integrated_gradients(pair)
    return found.sides, True, found.whole.tolist(), found.gap


METHODS: dict[str, Callable[[Pair], Found]] = {
    "gradient-x-input": lambda pair: (gradient_x_input(pair), True, None, None),
    "value-zeroing": lambda pair: (value_zeroing(pair), False, None, None),
    "leave-one-out": lambda pair: (leave_one_out(pair), True, None, None),
    "integrated-gradients": integrated,
}


def attribute(inspection: Inspection, method: str) -> Attribution:
    """The heads that the inspection went without stay off."""
    chosen, model = choose("attribution", method, METHODS), inspection.translator.single
    device = model.words.weight.device
    source, target = (
        torch.tensor([piece.id for piece in side.pieces], device=device)
        for side in (inspection.source, inspection.target)
    )
    with inspection.without():
        sides, signed, whole, gap = chosen(Pair(model, source, target[:-1], target[1:]))
    found = {name: one.double().cpu().numpy() for name, one in zip(("source", "target"), sides, strict=True)}
    agreed = {
        "source": agreements(inspection, "cross", found["source"]),
        "target": agreements(inspection, "decoder", found["target"]),
    }
    return Attribution(method, found["source"], found["target"], signed, whole, gap, agreed)


def agreements(inspection: Inspection, kind: str, values: Float[np.ndarray, "T n"]) -> list[list[float | None]]:
    seen = np.tri(*values.shape, dtype=bool) if kind == "decoder" else np.ones(values.shape, bool)
    layers = [weights.double().cpu().numpy() for weights in inspection.attention[kind]]
    return [[agreement(values, plane, seen) for plane in (layer.mean(0), *layer)] for layer in layers]
