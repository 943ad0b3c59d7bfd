"""What heads do for one output: how much less likely it is without them."""

from collections.abc import Collection, Sequence
from typing import Any

import torch

from manyheads.decoding.batching import evaluating
from manyheads.errors import choose
from manyheads.inspection.inspected import Written
from manyheads.inspection.switches import INSTEAD, Head, Means, each_without, every_head

__all__ = ["importance", "log_probability", "ranked"]

BATCH = 16
"""Rows per batch: more take more memory and are no faster."""


def log_probability(inspection: Written, off: Collection[Head], means: Means | None = None) -> float:
    """log P of the output that was written, for the model without these heads."""
    return log_probabilities(inspection, [off], means)[0]


@torch.no_grad()
def log_probabilities(inspection: Written, offs: Sequence[Collection[Head]], means: Means | None) -> list[float]:
    """The same for several sets of heads, each a row of a batch: many rows take little longer than a single one."""
    model, found = inspection.model, []
    with evaluating(model):
        for rows in (offs[n : n + BATCH] for n in range(0, len(offs), BATCH)):
            with each_without(model, rows, means):
                found += inspection.log_probabilities(len(rows))
    return found


def importance(inspection: Written, instead: str = "zero") -> dict[Head, float]:
    """For each head, log P of the output without it − log P with it: the lower, the more it does for this output.

    Heads that are off already stay off, and give what a head that is taken out gives: nothing, or its mean.
    """
    means = inspection.whole_means() if choose("instead", instead, INSTEAD) else None
    heads = every_head(inspection.model)
    offs = [inspection.off, *({*inspection.off, head} for head in heads)]
    whole, *without = log_probabilities(inspection, offs, means)
    return {head: value - whole for head, value in zip(heads, without, strict=True)}


def ranked(inspection: Written, instead: str = "zero") -> list[dict[str, Any]]:
    """Every head and what it does, for JSON, the most important first."""
    found = importance(inspection, instead)
    return [head._asdict() | {"change": found[head]} for head in sorted(found, key=lambda head: found[head])]
