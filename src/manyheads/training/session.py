"""Everything that one training works with, in one object."""

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
    """A task, its state and settings, the machine and the team, the run's folder, its log and its display.

    lenient   a failed save does not end the run
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
