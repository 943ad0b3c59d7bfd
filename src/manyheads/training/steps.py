"""One update of a model: from a batch to changed weights. There are three ways to compute it, equal but for rounding:

    EagerSteps    operation by operation: any device, any batch, any number of processes
    GraphedSteps  on one GPU: everything from the ids to the moving average is recorded once as a CUDA graph, its blocks
                  compiled, and replayed with new ids. Python launches none of it, and nothing waits for it.
    ShapedSteps   the same for batches of several shapes, each recorded separately and not compiled (shaped.py)

Whatever is random in a step is drawn from generators seeded by (seed, step): a resumed run is the same run.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.cuda_graph import record
from manyheads.errors import TrainingError, first_line
from manyheads.machine import Machine
from manyheads.models.parts import Embed
from manyheads.nn import DecoderBlock, EncoderBlock
from manyheads.nn.blocks import streams
from manyheads.recipe import TrainConfig
from manyheads.tasks.task import Batch, Part
from manyheads.team import ALONE, Team
from manyheads.training.capturable import choose_update
from manyheads.training.memory import in_smaller_parts, is_out_of_memory, release_memory
from manyheads.training.optimizer import update
from manyheads.training.state import State

__all__ = ["EagerSteps", "GraphedSteps", "Loss", "Report", "Steps", "can_graph", "learn_weighted", "seed_step"]

Loss = Callable[[nn.Module, Any], Tensor]
Report = tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, ""]]
"""The loss, the gradient's norm, and 1 if the update was skipped: tensors that nothing waits for here."""

WARM_UP = 3
"""Passes before a graph is recorded: libraries choose their kernels during the first ones."""

COMPILED = (EncoderBlock, DecoderBlock, Embed)
"""Modules that are compiled, unless they look up words or positions in a table.

Blocks of a kind share their code, so compiling one compiles all but the first, which has nothing to add yet. Lookups
are not compiled because compiled code adds up a table's gradients in whatever order the GPU gets to them, PyTorch's own
kernel in a fixed order.
"""


class Steps(Protocol):
    def __call__(self, batch: Batch, step: int, rate: float) -> Report: ...


def can_graph(machine: Machine, team: Team) -> bool:
    """True for one GPU in bfloat16, and one process."""
    return machine.device.type == "cuda" and machine.precision == "bf16" and team.size == 1


def seed_step(seed: int, step: int, rank: int = 0) -> None:
    torch.manual_seed((seed * 0x9E3779B1 + step + (rank << 48)) % 2**64)


class EagerSteps:
    """Computes updates operation by operation.

    The loss of every part is divided by the count of the whole batch, so the number of parts changes nothing. Neither
    does the number of processes: each has a share of the batch and multiplies its loss by their number, so the mean of
    their gradients is the batch's.

    on_split   is called with (step, number of parts) if memory was too short for a batch as planned
    """

    def __init__(
        self, state: State, config: TrainConfig, machine: Machine, loss: Loss, team: Team = ALONE,
        on_split: Callable[[int, int], None] = lambda step, parts: None,
    ) -> None:  # fmt: skip
        self.state, self.config, self.machine, self.loss, self.team = state, config, machine, loss, team
        self.learn = self.learn_or_split if team.size == 1 else self.learn_or_end
        self.on_split = on_split

    def __call__(self, batch: Batch, step: int, rate: float) -> Report:
        state, config = self.state, self.config
        total = self.learn(batch.to(self.machine.device), step)
        norm, skipped = update(state.optimizer, state.parameters, rate, config.clip)
        if state.average:
            state.average.update(step)
        return total, norm, skipped

    def learn_or_split(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        parts = batch.split(self.config.accumulate)
        learn = partial(self.learn_parts, batch.count, step)
        total, computed = in_smaller_parts(learn, parts, self.forget, f"the batch of step {step:,}")
        if computed > len(parts):
            self.on_split(step, computed)
        return total

    def learn_or_end(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """No retry: the others may be exchanging gradients, and starting again would mix those of two passes."""
        try:
            return self.learn_parts(batch.count, step, batch.split(self.config.accumulate))
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(
                f"memory must be enough for a share of a batch, got too little in process {self.team.rank} at step {step}: "
                f"{first_line(error)}",
                hint=f"use the same command with --resume --set train.accumulate={2 * self.config.accumulate}, or more processes; "
                "only a process that trains alone can split a batch",
            ) from None

    def learn_parts(self, count: int, step: int, parts: Sequence[Part]) -> Float[Tensor, ""]:
        """Forward and backward pass, part by part. Returns the mean loss per token."""
        state, machine, team = self.state, self.machine, self.team
        seed_step(self.config.seed, step, team.rank)
        total = torch.zeros((), device=machine.device)
        for part in parts:
            with team.without_exchange(state.forward) if part is not parts[-1] else nullcontext():
                with machine.autocast():
                    loss = self.loss(state.forward, part) * team.size / count
                loss.backward()
            total += loss.detach()
        return total

    def forget(self) -> None:
        """Drop the gradients that a failed pass has left in some of the weights, and release memory."""
        self.state.optimizer.zero_grad(set_to_none=True)
        release_memory(self.machine.device)

    def rehearse(self, batch: Batch) -> None:
        """A pass from which nothing is learnt."""
        self.learn_parts(batch.count, 0, batch.to(self.machine.device).split(self.config.accumulate))
        self.state.optimizer.zero_grad(set_to_none=True)


class GraphedSteps:
    """Replays updates that were recorded as one CUDA graph.

    example           a batch; all others must have its shapes
    compile_seconds   how long compiling and recording took
    """

    def __init__(self, state: State, config: TrainConfig, machine: Machine, loss: Loss, example: Batch) -> None:
        began = time.monotonic()
        self.state, self.config, self.machine, self.loss = state, config, machine, loss
        self.parts: list[Any] = list(example.to(machine.device).split(config.accumulate))
        self.weight = torch.full((), 1 / example.count, device=machine.device)  # of a token
        self.advance = choose_update(state.optimizer, state.parameters, state.average, config.clip)
        with streams(state.model), compiled_blocks(state.model):
            self.graph, self.report = self.record()
        torch.cuda.synchronize(machine.device)
        self.compile_seconds = time.monotonic() - began

    def __call__(self, batch: Batch, step: int, rate: float) -> Report:
        seed_step(self.config.seed, step)
        for mine, given in zip(self.parts, batch.split(self.config.accumulate), strict=True):
            for here, there in zip(mine.tensors(), given.tensors(), strict=True):  # type: ignore[attr-defined]
                here.copy_(there, non_blocking=True)
        self.weight.fill_(1 / batch.count)
        self.advance.set(step, rate)
        self.graph.replay()
        return self.report[0].clone(), self.report[1].clone(), self.report[2].clone()

    def record(self) -> tuple[torch.cuda.CUDAGraph, Report]:
        """Record an update. Every replay writes the gradients anew, in the same place, so none must be set to zero."""
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP):
                self.learn()
                check_gradients(self.state.model)
                self.state.optimizer.zero_grad(set_to_none=True)
        torch.cuda.current_stream().wait_stream(beside)
        report: list[Report] = []
        graph = record(lambda: report.append((self.learn(), *self.advance())), beside, torch.cuda.graph_pool_handle())
        return graph, report[0]

    def learn(self) -> Tensor:
        return learn_weighted(self.state.model, self.parts, self.weight, self.loss, self.machine)


def learn_weighted(
    model: nn.Module, parts: Sequence[Any], weight: Float[Tensor, ""], loss: Loss, machine: Machine
) -> Float[Tensor, ""]:
    """Forward and backward pass, part by part. Returns the mean loss per token; a token's `weight` is on the device."""
    total = torch.zeros((), device=machine.device)
    for part in parts:
        with machine.autocast():
            mean = loss(model, part) * weight
        mean.backward()
        total = total + mean.detach()
    return total


def check_gradients(model: nn.Module) -> None:
    """Raise if a gradient is missing. A compiler that loses one reports nothing: the model would only learn worse."""
    learning = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    lost = [name for name, p in learning if p.grad is None or not p.grad.any()]
    if lost:
        raise RuntimeError(
            f"the compiled model has no gradient for {len(lost)} of its parameters, {lost[0]} among them"
        )


def has_table(module: nn.Module) -> bool:
    return any(isinstance(part, nn.Embedding) for part in module.modules())


@contextmanager
def compiled_blocks(model: nn.Module) -> Iterator[None]:
    """While this lasts, blocks are compiled, each kind once. Recordings keep the compiled code.

    Later calls find the blocks as they were: for sentences of other lengths they would be compiled anew.
    """
    blocks = [module for module in model.modules() if isinstance(module, COMPILED) and not has_table(module)]
    for block in blocks:
        block.compile(dynamic=False)
    try:
        yield
    finally:
        for block in blocks:
            block._compiled_call_impl = None
