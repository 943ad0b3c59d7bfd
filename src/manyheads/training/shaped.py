"""Updates of padded batches on one GPU, recorded for each of their shapes.

Sentences are cut into batches by length, and the cuts are the same in every epoch, so most shapes occur again and
again. The first update of a shape runs eagerly, the second is recorded as a CUDA graph, and later ones replay it with
other ids. (`recorded` describes how; a batch for which memory is too short runs eagerly, in smaller parts.)
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
"""The most shapes that are recorded: each takes some megabytes."""

Shape = tuple[torch.Size, ...]


class Place:
    """Tensors that batches of one shape are copied to, and the player of the work on them."""

    def __init__(self, example: Any, player: Player) -> None:
        self.batch = example.with_tensors(t.clone() for t in example.tensors())
        self.player = player

    def put(self, batch: Any) -> None:
        for here, there in zip(self.batch.tensors(), batch.tensors(), strict=True):
            here.copy_(there, non_blocking=True)


def recorded_steps(eager: EagerSteps, loss: Loss, tell: Callable[[str], None]) -> "ShapedSteps":
    """Steps that record on a GPU. `tell` is called with the reason if nothing can be recorded."""
    return ShapedSteps(eager, loss, Recorder(eager.machine.device, tell))


class ShapedSteps:
    """Computes updates, each shape with a recording of its own.

    eager      computes batches for which memory is too short
    recorder   makes a player for each place
    """

    def __init__(self, eager: EagerSteps, loss: Loss, recorder: Callable[[], Player]) -> None:
        state, config, device = eager.state, eager.config, eager.machine.device
        self.eager, self.loss = eager, loss
        self.advance = choose_update(state.optimizer, state.parameters, state.average, config.clip)
        self.recorder = recorder
        self.places: dict[Shape, Place] = {}
        self.too_large: set[Shape] = set()
        self.advancing = False  # has the optimizer started, so that weights may have changed?
        self.weight = torch.zeros((), device=device)  # of a token
        self.report = torch.zeros(3, device=device)

    def __call__(self, batch: Any, step: int, rate: float) -> Report:
        self.advancing = False
        shape = tuple(t.shape for t in batch.tensors())
        while shape not in self.too_large:
            try:
                return self.learn_at(self.place_for(shape, batch), batch, step, rate)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or not self.ask_for_less(shape, first_line(error)):
                    raise
            self.eager.forget()  # here, not above: the error keeps alive all that was being computed
        return self.eager(batch, step, rate)

    def ask_for_less(self, shape: Shape, why: str) -> bool:
        """Decide what to try after memory ran out.

        If a shape was being recorded, recordings end for all shapes: each keeps the memory of all of them reserved,
        which the eager update of this one needs. Any other shape runs in parts.

        False if the update cannot be computed again, because the optimizer had started.
        """
        player = self.places[shape].player if shape in self.places else None
        if isinstance(player, Recorded) and player.to_record:  # a recording does not run
            player.refuse(why)
            self.recorder = Eager
            self.places.clear()
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
        self.advancing = True  # a replay has run no Python
        if isinstance(place.player, Recorded) and place.player.refused:
            self.record_no_more()
        loss, norm, skipped = self.report.clone()
        return loss, norm, skipped

    def learn(self, place: Place) -> None:
        """Everything the CUDA graph contains, from token ids to the moving average of the weights."""
        eager = self.eager
        # A failed recording has left gradients that were never computed.
        eager.state.optimizer.zero_grad(set_to_none=True)
        parts = place.batch.split(eager.config.accumulate)
        loss: Float[Tensor, ""] = learn_weighted(eager.state.model, parts, self.weight, self.loss, eager.machine)
        self.advancing = not is_recording()
        self.report.copy_(torch.stack([loss, *self.advance()]))

    def record_no_more(self) -> None:
        """Stop recording: the reason that one shape cannot be recorded holds for all."""
        self.recorder = Eager
        for place in self.places.values():
            if isinstance(place.player, Recorded) and place.player.graph is None:
                place.player = Eager()


def is_recording() -> bool:
    """Whether the work of this moment is only being recorded."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
