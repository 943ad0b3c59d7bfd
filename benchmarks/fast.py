"""The two ways in which this project trains: batches padded and run eagerly, or packed and run as one graph.

Without a GPU there is no graph: the same packed batches are run eagerly there, so that all code can be tried.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from manyheads.machine import Machine
from manyheads.recipe import TrainConfig
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.pairs import Parts, pack_pairs
from manyheads.text.packs import PackPlan
from manyheads.text.shards import Rows
from manyheads.text.turns import Numbers
from manyheads.training.state import State
from manyheads.training.steps import EagerSteps, GraphedSteps

__all__ = ["Steps", "eager_steps", "graphed_steps", "packed_batches"]


class Steps(NamedTuple):
    """How to take steps.

    run               (batch on the device, step, rate) → (loss, gradient norm, 1 if skipped), tensors not waited for
    compile_seconds   how long compiling took
    """

    run: Callable[[Any, int, float], tuple[Tensor, Tensor, Tensor]]
    compile_seconds: float


def packed_batches(sources: Rows, targets: Rows, tokens: int, seed: int, most: int) -> list[tuple[Numbers, Parts]]:
    """(rows, batch) of the first `most` steps, each with room for `tokens` tokens on its longer side."""
    lengths = sources.lengths + 1, targets.lengths + 1
    plan = PackPlan(*lengths, tokens, seed)
    longest = int(max(side.max() for side in lengths))
    found = []
    for step in range(most):
        (rows,) = plan.rows(step)
        pack = pack_pairs(sources.some(rows), targets.some(rows), plan.room, longest)  # type: ignore[arg-type]
        found.append((rows, Parts([pack], int(lengths[1][rows].sum()))))
    return found


@dataclass(frozen=True, eq=False)
class There:
    """A batch that is on its device already: `to` leaves it there."""

    batch: Any

    @property
    def count(self) -> int:
        return self.batch.count

    def to(self, device: torch.device) -> "There":
        return self

    def split(self, parts: int) -> Any:
        return self.batch.split(parts)


def eager_steps(model: nn.Module, config: TrainConfig, device: torch.device, precision: str) -> Steps:
    state = State(model, config, device)
    state.model.train()
    steps = EagerSteps(state, config, Machine(device, precision), choose_loss(config))
    return Steps(lambda batch, step, rate: steps(There(batch), step, rate), 0.0)  # type: ignore[arg-type]


def graphed_steps(model: nn.Module, config: TrainConfig, device: torch.device, precision: str, example: Parts) -> Steps:
    """`example` is a batch that is not on the device yet; all others are later copied to the place that it is given."""
    if device.type != "cuda":
        return eager_steps(model, config, device, precision)
    state = State(model, config, device)
    state.model.train()
    loss, machine = choose_loss(config).fused(), Machine(device, precision)
    steps = GraphedSteps(state, config, machine, loss, example)  # type: ignore[arg-type]
    return Steps(steps, steps.compile_seconds)
