"""What heads do for one output: how much less likely it is without them."""

from collections.abc import Collection
from typing import Any

import torch

from manyheads.decoding.batching import evaluating
from manyheads.decoding.forced import forced
from manyheads.inspection.api import Inspection
from manyheads.inspection.switches import Head, every_head, switched_off

__all__ = ["importance", "log_probability", "ranked"]


@torch.no_grad()
def log_probability(inspection: Inspection, off: Collection[Head]) -> float:
    """log P of the output that was written, of a model that goes without these heads."""
    model = inspection.translator.single
    source, (_, *written) = ([piece.id for piece in side.pieces] for side in (inspection.source, inspection.target))
    with evaluating(model), switched_off(model, off):
        return forced(model, [source], [written])[0]


def importance(inspection: Inspection) -> dict[Head, float]:
    """For each head, log P of the output without it − log P with it: the lower, the more it does for this output.

    Heads that are off already stay off.
    """
    whole = log_probability(inspection, inspection.off)
    return {
        head: log_probability(inspection, {*inspection.off, head}) - whole
        for head in every_head(inspection.translator.single)
    }


def ranked(inspection: Inspection) -> list[dict[str, Any]]:
    """Every head and what it does, for JSON; the most important first."""
    found = importance(inspection)
    return [head._asdict() | {"change": found[head]} for head in sorted(found, key=lambda head: found[head])]
