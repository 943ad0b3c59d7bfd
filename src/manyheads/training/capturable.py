"""An update, moving average included, that a CUDA graph can hold: what differs from step to step is on the device.

Before each replay `set` writes the values of the step to the device, where the graph reads them. `choose_update` takes
the fastest implementation that suits the optimizer; all give the same numbers, and leave the same state behind.
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
        """Set the values of the coming step, counted from 1. Not captured."""
        ...

    def __call__(self) -> tuple[Tensor, Tensor]:
        """Clip the gradients, step, update the average and drop the gradients.

        Returns (the norm, 1 if the step was skipped). In a captured call both are tensors that every replay overwrites.
        """
        ...


class TorchUpdate:
    """Uses torch's own kernels; for every optimizer."""

    def __init__(
        self, optimizer: Optimizer, parameters: list[nn.Parameter], average: MovingAverage | None, clip: float
    ) -> None:
        self.optimizer, self.parameters, self.average, self.clip = optimizer, parameters, average, clip
        ready_to_record(optimizer)
        self.rate, self.weight = torch.zeros(2, device=parameters[0].device)

    def set(self, step: int, rate: float) -> None:
        """The values travel as kernel arguments, because the host may be many steps ahead."""
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
    """The fastest update for parameters that, like their state, will stay where they are in memory."""
    if isinstance(optimizer, AdamW) and HAVE_TRITON and fusible(parameters):
        from manyheads.training.fused_update import FusedUpdate  # Triton comes with torch for CUDA, not for the CPU

        return FusedUpdate(optimizer, parameters, average, clip)
    return TorchUpdate(optimizer, parameters, average, clip)


def fusible(parameters: Sequence[Tensor]) -> bool:
    """True if all are whole, dense, aligned and on one GPU. (Our kernels would not see all of a DTensor.)"""
    return len({p.device for p in parameters}) == 1 and all(
        type(p) is nn.Parameter
        and p.is_cuda
        and p.dtype == torch.float32
        and p.is_contiguous()
        and p.data_ptr() % 16 == 0
        for p in parameters
    )
