"""What each written piece owes to the pieces that were read, by methods that do not go by where heads looked.

    found = attribute(inspection, "integrated-gradients")
    found.source                    (T, S): what row t owes to each source piece
    found.target                    (T, T): … and to each target piece that it has read
    found.agreement["source"]       how far each head of each layer agrees with it, as a rank correlation

A language model has no source. An encoder-only model writes nothing: value-zeroing says what each of its rows owes to
the others.

T rows · S source pieces
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.decoding.way import first_word
from manyheads.errors import OptionError, choose
from manyheads.inspection.agreement import agreement
from manyheads.inspection.inspected import Inspected, Written
from manyheads.inspection.vectors import (
    LoneText,
    Pair,
    Places,
    Sides,
    gradient_x_input,
    integrated_gradients,
    leave_one_out,
)
from manyheads.inspection.zeroing import value_zeroing, value_zeroing_alone
from manyheads.models.encoder import TextEncoder
from manyheads.models.language_model import LanguageModel
from manyheads.models.parallel import ParallelTransformer
from manyheads.models.transformer import Transformer

__all__ = ["CHEAP", "METHODS", "Attribution", "attribute", "methods_of"]

CHEAP = ("gradient-x-input", "value-zeroing")
"""The methods that a single-file page includes by default: they take some tenths of a second."""
DIGITS = 6


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each row owes to each piece, by one method.

    owed        to "source" and "target", whichever the model has: (rows, pieces)
    signed      True: values are in nats, for or against what was written; False: each row holds shares of 1
    whole       the total change of each row due to all vectors; gap: how far the sums miss it at most. Both are None
                except for integrated gradients
    agreement   for the same sides and each layer: how far the mean of its heads agrees, then each head
    """

    method: str
    owed: Mapping[str, Float[np.ndarray, "T n"]]
    signed: bool
    whole: list[float] | None
    gap: float | None
    agreement: Mapping[str, list[list[float | None]]]

    @property
    def source(self) -> Float[np.ndarray, "T S"]:
        return self.owed["source"]

    @property
    def target(self) -> Float[np.ndarray, "T T"]:
        return self.owed["target"]

    def as_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            **{side: rounded(values) for side, values in self.owed.items()},
            "signed": self.signed,
            "whole": self.whole,
            "gap": self.gap,
            "agreement": self.agreement,
        }


def rounded(values: Float[np.ndarray, "T n"]) -> list[list[float]]:
    return [[float(f"{value:.{DIGITS}g}") for value in row] for row in values.tolist()]


Found = tuple[Sides | tuple[Tensor], bool, list[float] | None, float | None]
"""(values, signed, whole, gap)"""


def integrated(pair: Pair) -> Found:
    found = integrated_gradients(pair)
    return found.sides, True, found.whole.tolist(), found.gap


METHODS: dict[str, Callable[[Pair], Found]] = {
    "gradient-x-input": lambda pair: (gradient_x_input(pair), True, None, None),
    "value-zeroing": lambda pair: (value_zeroing(pair), False, None, None),
    "leave-one-out": lambda pair: (leave_one_out(pair), True, None, None),
    "integrated-gradients": integrated,
}


def attribute(inspection: Inspected, method: str) -> Attribution:
    """Compute an attribution by one method. Heads that were off in the inspection stay off."""
    chosen = choose("attribution", method, METHODS)
    if method not in methods_of(inspection):
        raise OptionError(
            f"{method} needs a model that writes, got one that only reads", hint=" or ".join(methods_of(inspection))
        )
    with inspection.without():
        sides, signed, whole, gap = (
            chosen(passage_of(inspection)) if isinstance(inspection, Written) else owed_in_encoder(inspection)
        )
    named = zip(("source", "target"), sides, strict=False)
    found = {name: one.double().cpu().numpy() for name, one in named if name in inspection.sides}
    agreed = {side: agreements(inspection, side, values) for side, values in found.items()}
    return Attribution(method, found, signed, whole, gap, agreed)


def methods_of(inspection: Inspected) -> list[str]:
    return list(METHODS) if isinstance(inspection, Written) else ["value-zeroing"]


def passage_of(inspection: Written) -> Pair:
    model = inspection.model
    source, target, written = (
        torch.tensor(ids, dtype=torch.long, device=model.words.weight.device)
        for ids in (*inspection.read_ids(), inspection.written_ids())
    )
    match model:
        case ParallelTransformer():
            return Places(model, source, target, written, first_word(model))
        case LanguageModel():
            return LoneText(model, source, target, written)
        case _:
            return Pair(cast(Transformer, model), source, target, written)


def owed_in_encoder(inspection: Inspected) -> Found:
    model = cast(TextEncoder, inspection.model)
    source = torch.tensor(inspection.ids("source"), device=model.words.weight.device)
    return (value_zeroing_alone(model, source),), False, None, None


def agreements(inspection: Inspected, side: str, values: Float[np.ndarray, "T n"]) -> list[list[float | None]]:
    """Agreement with the attention of the last stack that looks at this side."""
    kind = "decoder" if side == "target" else "cross" if "cross" in inspection.attention else "encoder"
    ahead = kind != "decoder" or isinstance(inspection.model, ParallelTransformer)
    seen = np.ones(values.shape, bool) if ahead else np.tri(*values.shape, dtype=bool)
    layers = [weights.double().cpu().numpy() for weights in inspection.attention[kind]]
    return [[agreement(values, plane, seen) for plane in (layer.mean(0), *layer)] for layer in layers]
