"""What each head does for one output: how much less likely it is without that head."""

import torch

from manyheads.decoding.batching import evaluating
from manyheads.inspection.api import Inspection
from manyheads.inspection.switches import Head, every_head, switched_off

__all__ = ["importance"]


@torch.no_grad()
def importance(inspection: Inspection) -> dict[Head, float]:
    """For each head, log P of the target without it − log P with all of them: the lower, the more it does for this output."""
    model = inspection.translator.single
    device = model.words.weight.device
    source, target = (
        torch.tensor([[piece.id for piece in side.pieces]], device=device)
        for side in (inspection.source, inspection.target)
    )

    def log_probability() -> float:
        log_p = model(source, target[:, :-1]).double().log_softmax(-1)
        return float(log_p.gather(-1, target[:, 1:, None]).sum())

    with evaluating(model):
        whole = log_probability()
        found = {}
        for head in every_head(model):
            with switched_off(model, [head]):
                found[head] = log_probability() - whole
    return found
