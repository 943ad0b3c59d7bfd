"""What belongs together while a model is trained."""

from dataclasses import dataclass
from typing import Any

from manyheads.machine import Machine
from manyheads.recipe import TrainConfig
from manyheads.team import Team
from manyheads.training.log import Log
from manyheads.training.run import Run
from manyheads.training.show import Show
from manyheads.training.state import State

__all__ = ["Session"]


@dataclass(frozen=True, eq=False)
class Session:
    """A task, how far its model has come, how to go on, on what, with whom, where it is kept, and who is told.

    lenient   a save that fails does not end the run
    """

    task: Any
    state: State
    config: TrainConfig
    machine: Machine
    team: Team
    run: Run
    log: Log
    show: Show
    lenient: bool = False
