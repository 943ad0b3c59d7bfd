"""The host side of update_kernels.py for an AdamW: the optimizer's state, the table of addresses, the launches.

For N parameters of four bytes, clip_grad_norm_ reads and writes 12 N bytes, torch's fused AdamW 28 N, the moving
average 12 N. Here the norm takes 4 N and everything else 36 N: 40 N instead of 52 N, in six launches instead of some
fifty.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

from manyheads.training import update_kernels
from manyheads.training.average import MovingAverage
from manyheads.training.optimizer import ready_to_record
from manyheads.training.update_kernels import BATCH, BLOCK, PARTS

kernels: Any = update_kernels  # type checkers cannot see what Triton's decorator returns

__all__ = ["FusedUpdate"]


class FusedUpdate:
    """One clipped update of AdamW and one of the moving average.

    Calls can be captured in a CUDA graph; `set` is called before each replay. The state remains the optimizer's, where
    it was; only its step counts become parts of one tensor. From here on weights, state and averages must not move, so
    a checkpoint is restored before. Gradients may be anywhere in every call, and a parameter without one stays as it
    is. If a gradient is not finite, nothing moves but the average, which follows the unchanged weights.
    """

    def __init__(
        self, optimizer: AdamW, parameters: Sequence[Tensor], average: MovingAverage | None, clip: float
    ) -> None:
        self.parameters, self.average, self.clip = list(parameters), average, clip or math.inf
        self.betas, self.eps = optimizer.defaults["betas"], optimizer.defaults["eps"]
        ready_to_record(optimizer)
        device = self.parameters[0].device
        self.lanes = -(-len(self.parameters) // BATCH) * BATCH
        decays = {p: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
        self.decays = torch.tensor([decays.get(p, 0.0) for p in self.parameters], dtype=torch.float64, device=device)
        self.sizes = torch.tensor([p.numel() for p in self.parameters], dtype=torch.int32, device=device)
        self.owners, self.starts = (t.to(device) for t in chunks([p.numel() for p in self.parameters]))
        self.programs = -(-len(self.owners) // PARTS)
        self.steps = one_count(optimizer, self.parameters)
        self.table = self.addresses(optimizer)
        self.nothing = torch.zeros(4, device=device)
        self.sums = torch.zeros(self.programs, device=device)
        self.factors = torch.zeros(3, self.lanes, device=device)
        self.rate, self.weight = torch.zeros(2, 1, dtype=torch.float64, device=device)
        # Compile the kernels now, since a capture cannot. Without gradients, and with a share of 0, nothing moves.
        self.launch([None] * len(self.parameters))

    def addresses(self, optimizer: AdamW) -> Tensor:
        """Rows: weights, gradients (written at every call), means, squares, averages."""
        averages = dict(zip(self.average.theirs, self.average.mine, strict=True)) if self.average else {}
        held = [optimizer.state.get(p, {}) for p in self.parameters]
        rows = [
            self.parameters,
            [None] * len(held),
            [state.get("exp_avg") for state in held],
            [state.get("exp_avg_sq") for state in held],
            [averages[p] if averages else None for p in self.parameters],
        ]
        self.kept = [[t for t in row if t is not None] for row in rows]  # an address keeps nothing alive
        empty = [0] * (self.lanes - len(held))
        return torch.tensor([[address_of(t) for t in row] + empty for row in rows], device=self.decays.device)

    def set(self, step: int, rate: float) -> None:
        """Set what differs from step to step, by kernel arguments: the host may be many steps ahead."""
        self.rate.fill_(rate)
        if self.average:
            self.weight.fill_(self.average.share(step))

    @torch.no_grad()
    def __call__(self) -> tuple[Tensor, Tensor]:
        """Returns (the gradient's norm, 1 if the step was skipped)."""
        norm, skipped = self.launch([readable(p.grad) for p in self.parameters])
        for p in self.parameters:
            p.grad = None
        return norm, skipped

    def launch(self, gradients: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
        self.note(gradients)
        outcome = torch.empty(3, device=self.sums.device)
        where = self.sizes, self.owners, self.starts
        kernels.sum_squares[(self.programs,)](
            self.table, *where, self.sums, len(self.owners), self.lanes,
            BLOCK=BLOCK, PARTS=PARTS, num_warps=8,
        )  # fmt: skip
        kernels.settle_step[(1,)](
            self.table, self.sums, outcome, self.steps, self.decays, self.factors, self.rate, self.clip, self.lanes,
            SUMS=self.programs, TENSORS=len(self.parameters),
            LOG2_BETA1=math.log2(self.betas[0]), LOG2_BETA2=math.log2(self.betas[1]), BLOCK=1024, num_warps=8,
        )  # fmt: skip
        kernels.move_chunk[(len(self.owners),)](
            self.table, *where, outcome, self.factors, self.weight, self.lanes,
            BETA1=self.betas[0], BETA2=self.betas[1], EPS=self.eps,
            AVERAGE=self.average is not None, BLOCK=BLOCK, num_warps=8,
        )  # fmt: skip
        return outcome[0], outcome[1]

    def note(self, gradients: Sequence[Tensor | None]) -> None:
        given = [self.nothing if g is None else g for g in gradients]
        given += [self.nothing] * (self.lanes - len(given))
        for start in range(0, self.lanes, BATCH):
            some = tuple(given[start : start + BATCH])
            kernels.note_addresses[(1,)](self.table[1, start:], some, self.nothing, BATCH=BATCH, num_warps=1)


def one_count(optimizer: AdamW, parameters: Sequence[Tensor]) -> Tensor:
    """Every parameter's step count, in one tensor; the optimizer's state holds views of it."""
    counts = torch.zeros(len(parameters), device=parameters[0].device)
    for p, count in zip(parameters, counts.unbind(), strict=True):
        if p in optimizer.state:
            optimizer.state[p]["step"] = count.copy_(optimizer.state[p]["step"])
    return counts


def chunks(sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """(the tensor that each chunk belongs to, where the chunk starts in it)"""
    counts = torch.tensor([-(-size // BLOCK) for size in sizes])
    owners = torch.repeat_interleave(torch.arange(len(sizes)), counts)
    starts = (torch.arange(len(owners)) - (counts.cumsum(0) - counts)[owners]) * BLOCK
    return owners.int(), starts.int()


def readable(gradient: Tensor | None) -> Tensor | None:
    """The gradient as the kernels can read it: dense, and aligned so that four numbers are read at once."""
    if gradient is None or (gradient.is_contiguous() and gradient.data_ptr() % 16 == 0):
        return gradient
    return gradient.clone(memory_format=torch.contiguous_format)


def address_of(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
