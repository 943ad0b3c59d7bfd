"""Updates of padded batches on one GPU, recorded for each of their shapes.

Sentences are cut into batches by length, and the cuts are the same in every epoch, so that most shapes are met again and again. The first time an update is
computed as it is, the second time it is recorded as a CUDA graph, and from then on it is replayed with other ids. (`recorded` says how; a batch for which memory
is too short is computed operation by operation, in smaller parts.)
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.errors import first_line
from manyheads.recorded import Eager, Player, Recorded, Recorder
from manyheads.tasks.task import Batch
from manyheads.training.capturable import choose_update
from manyheads.training.memory import is_out_of_memory
from manyheads.training.steps import EagerSteps, Loss, Report, learn_weighted, seed_step

__all__ = ["ShapedSteps", "recorded_steps"]

MOST_SHAPES = 256
"""That are recorded: each takes some megabytes."""

Shape = tuple[torch.Size, ...]


class Place:
    """Where batches of one shape lie when they are learnt from, and who plays what is done with them."""

    def __init__(self, example: Any, player: Player) -> None:
        self.batch = example.with_tensors(t.clone() for t in example.tensors())
        self.player = player

    def put(self, batch: Any) -> None:
        for here, there in zip(self.batch.tensors(), batch.tensors(), strict=True):
            here.copy_(there, non_blocking=True)


def recorded_steps(eager: EagerSteps, loss: Loss, tell: Callable[[str], None]) -> "ShapedSteps":
    """`tell` is told why nothing could be recorded."""
    return ShapedSteps(eager, loss, Recorder(eager.machine.device, tell))


class ShapedSteps:
    """
    eager      computes batches for which memory is too short
    recorder   makes the players of places
    """

    def __init__(self, eager: EagerSteps, loss: Loss, recorder: Callable[[], Player]) -> None:
        state, config, device = eager.state, eager.config, eager.machine.device
        self.eager, self.loss = eager, loss
        self.advance = choose_update(state.optimizer, state.parameters, state.average, config.clip)
        self.recorder = recorder
        self.places: dict[Shape, Place] = {}
        self.too_large: set[Shape] = set()
        self.advancing = False  # has the update begun, so that weights may have changed?
        self.weight = torch.zeros((), device=device)  # of a token
        self.report = torch.zeros(3, device=device)

    def __call__(self, batch: Any, step: int, rate: float) -> Report:
        shape = tuple(t.shape for t in batch.tensors())
        while shape not in self.too_large:
            try:
                return self.learn_at(self.place_for(shape, batch), batch, step, rate)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or not self.ask_for_less(shape, first_line(error)):
                    raise
            self.eager.forget()  # here, not above: as long as there is the error, there is all that it was computing with
        return self.eager(batch, step, rate)

    def ask_for_less(self, shape: Shape, why: str) -> bool:
        """What cannot be recorded may yet be computed as it is, without memory that is its alone; if not that either, in parts.

        False if it cannot be computed again: the update had begun."""
        player = self.places[shape].player if shape in self.places else None
        if isinstance(player, Recorded) and player.to_record:  # what is recorded does not run
            player.refuse(why)
            self.record_no_more()
            return True
        self.too_large.add(shape)
        self.places.pop(shape, None)
        return not self.advancing

    def place_for(self, shape: Shape, batch: Any) -> Place:
        if shape in self.places:
            return self.places[shape]
        place = Place(batch.to(self.eager.machine.device), self.recorder())
        if len(self.places) < MOST_SHAPES:
            self.places[shape] = place
        return place

    def learn_at(self, place: Place, batch: Batch, step: int, rate: float) -> Report:
        seed_step(self.eager.config.seed, step)
        place.put(batch)
        self.weight.fill_(1 / batch.count)
        self.advance.set(step, rate)
        place.player(partial(self.learn, place))
        if isinstance(place.player, Recorded) and place.player.refused:
            self.record_no_more()
        loss, norm, skipped = self.report.clone()
        return loss, norm, skipped

    def learn(self, place: Place) -> None:
        """All that is recorded: from the ids to the moving average."""
        eager, self.advancing = self.eager, False
        # A recording that failed has left gradients that were never computed.
        eager.state.optimizer.zero_grad(set_to_none=True)
        parts = place.batch.split(eager.config.accumulate)
        loss: Float[Tensor, ""] = learn_weighted(eager.state.model, parts, self.weight, self.loss, eager.machine)
        self.advancing = True
        self.report.copy_(torch.stack([loss, *self.advance()]))

    def record_no_more(self) -> None:
        """What one could not be recorded for, no other will be."""
        self.recorder = Eager
        for place in self.places.values():
            if isinstance(place.player, Recorded) and place.player.graph is None:
                place.player = Eager()
