"""An update, and the moving average's, that a CUDA graph can hold: what differs from step to step lies on the device.

Before each replay, `set` says what holds for the step; the graph reads it there. `choose_update` takes the quickest that is right for
the optimizer; all give the same numbers, and leave the same state behind.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from manyheads.nn.kernels import HAVE_TRITON
from manyheads.training.average import MovingAverage
from manyheads.training.optimizer import ready_to_record, update

__all__ = ["TorchUpdate", "Update", "choose_update"]


class Update(Protocol):
    def set(self, step: int, rate: float) -> None:
        """What holds for the step that comes, counted from 1. Not captured."""
        ...

    def __call__(self) -> tuple[Tensor, Tensor]:
        """Clip the gradients, make the step, let the average follow, drop the gradients: (the norm, 1 if the step was left out).

        In a captured call both are tensors that every replay writes anew."""
        ...


class TorchUpdate:
    """By torch's own kernels, for every optimizer."""

    def __init__(
        self, optimizer: Optimizer, parameters: list[nn.Parameter], average: MovingAverage | None, clip: float
    ) -> None:
        self.optimizer, self.parameters, self.average, self.clip = optimizer, parameters, average, clip
        ready_to_record(optimizer)
        self.rate, self.weight = torch.zeros(2, device=parameters[0].device)

    def set(self, step: int, rate: float) -> None:
        """The numbers travel as arguments of launches: the host may be many steps ahead."""
        self.rate.fill_(rate)
        if self.average:
            self.weight.fill_(self.average.share(step))

    def __call__(self) -> tuple[Tensor, Tensor]:
        outcome = update(self.optimizer, self.parameters, self.rate, self.clip)
        if self.average:
            self.average.follow(self.weight)
        return outcome


def choose_update(
    optimizer: Optimizer, parameters: list[nn.Parameter], average: MovingAverage | None, clip: float
) -> Update:
    """For parameters that are, like their state, where they will stay."""
    if isinstance(optimizer, AdamW) and HAVE_TRITON and fusible(parameters):
        from manyheads.training.fused_update import FusedUpdate  # Triton comes with torch for CUDA, not for the CPU

        return FusedUpdate(optimizer, parameters, average, clip)
    return TorchUpdate(optimizer, parameters, average, clip)


def fusible(parameters: Sequence[Tensor]) -> bool:
    """Whole, dense, aligned and on one GPU. (A DTensor is shared out: no kernel of ours sees all of it.)"""
    return len({p.device for p in parameters}) == 1 and all(
        type(p) is nn.Parameter
        and p.is_cuda
        and p.dtype == torch.float32
        and p.is_contiguous()
        and p.data_ptr() % 16 == 0
        for p in parameters
    )
