"""A training that can be looked at again: what every head did with one held-out pair, at the start, on the way to the first
validation, and at each of them.

It is for looking at, never needed to go on: what goes wrong here is said once, and training goes on without it. Nothing is drawn for
it, and the model stays as it was: a run is the same run, bit for bit, with and without it.
"""

import errno
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from pathlib import Path

from torch import nn

from manyheads.errors import first_line
from manyheads.inspection.moments import Pair, dump_moment, name_of_moment, see, steps_in, thinned
from manyheads.models.transformer import Transformer
from manyheads.storage import make_folder, replace_file, room_free
from manyheads.training.session import Session

__all__ = ["Moments", "early_steps", "moments_of"]

MOST = 60
"""Moments that are kept: enough for a film, and a few megabytes at most."""
HALVINGS = 4
ROOM = 16 << 20
"""Bytes that must be free on the disk: the last ones are for what a run must save."""


class Moments:
    """Keeps moments of a model that learns. Without a `pair` there is nothing to look at, and nothing is kept."""

    def __init__(self, folder: Path, pair: Pair | None, say: Callable[[str], None]) -> None:
        self.folder, self.pair, self.say, self.failed = folder, pair, say, False

    def begin(self, step: int) -> None:
        """A run that goes on does so from its last save: what was kept after it is going to be kept again."""
        if self.pair is not None:
            self.with_care(lambda: self.forget(later for later in steps_in(self.folder) if later > step))

    def keep(self, model: nn.Module, step: int, metrics: Mapping[str, float]) -> None:
        """What a model does with the pair now. `metrics`: how good it is, as far as that is known."""
        pair = self.pair
        if pair is not None and isinstance(model, Transformer):
            self.with_care(lambda: self.write(model, pair, step, metrics))

    def write(self, model: Transformer, pair: Pair, step: int, metrics: Mapping[str, float]) -> None:
        known = {name: value for name, value in metrics.items() if isfinite(value)}
        moment = see(model, pair, step, known)
        if moment is None:
            return
        if room_free(self.folder) < ROOM:
            raise OSError(errno.ENOSPC, "little room is left on the disk")
        make_folder(self.folder)
        replace_file(self.folder / name_of_moment(step), dump_moment(moment))
        steps = steps_in(self.folder)
        self.forget(set(steps).difference(thinned(steps, MOST)))

    def forget(self, steps: Iterable[int]) -> None:
        for step in list(steps):
            (self.folder / name_of_moment(step)).unlink(missing_ok=True)

    def with_care(self, act: Callable[[], None]) -> None:
        """A disk may be full, memory short, a folder a file: none of it is a reason to stop."""
        try:
            act()
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) else first_line(error)
            if not self.failed:
                self.say(f"{self.folder} cannot be written ({why}); training goes on without it")
            self.failed = True


def early_steps(validate_every: int) -> set[int]:
    """Many heads have found their place before the first validation: a half, a quarter, … of the way there they are looked at, too."""
    return {validate_every >> n for n in range(1, HALVINGS + 1)} - {0}


def moments_of(session: Session) -> Moments:
    """That of a run. The first process looks for all of them."""
    wanted = session.config.replay and session.team.first
    return Moments(session.run.replay, session.task.example() if wanted else None, session.show.say)
