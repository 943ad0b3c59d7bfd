"""Moments of a training run, to be viewed later: what every head did with one held-out pair.

They are kept at the start, on the way to the first validation, and at each validation. They are never needed to resume
a run: a failure here is reported once, and training continues without them. Recording them draws no random numbers and
leaves the model as it was: a run is the same run, bit for bit, with and without them.
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
"""The most moments that are kept: enough for a film, and a few megabytes at most."""
HALVINGS = 4
ROOM = 16 << 20
"""Bytes that must be free on the disk: the last ones are reserved for what a run must save."""


class Moments:
    """Keeps moments of a model as it learns. Without a `pair` there is nothing to observe, and nothing is kept."""

    def __init__(self, folder: Path, pair: Pair | None, say: Callable[[str], None]) -> None:
        self.folder, self.pair, self.say, self.failed = folder, pair, say, False

    def begin(self, step: int) -> None:
        """Forget moments after `step`: a run resumes from its last save, and will keep the later ones again."""
        if self.pair is not None:
            self.with_care(lambda: self.forget(later for later in steps_in(self.folder) if later > step))

    def keep(self, model: nn.Module, step: int, metrics: Mapping[str, float]) -> None:
        """Keep what a model does with the pair now. `metrics`: its scores, as far as they are known."""
        pair = self.pair
        if pair is not None and isinstance(model, Transformer):
            self.with_care(lambda: self.write(model, pair, step, metrics))

    def write(self, model: Transformer, pair: Pair, step: int, metrics: Mapping[str, float]) -> None:
        known = {name: value for name, value in metrics.items() if isfinite(value)}
        moment = see(model, pair, step, known)
        if moment is None:
            return
        if room_free(self.folder) < ROOM:
            raise OSError(errno.ENOSPC, "too little room is left on the disk")
        make_folder(self.folder)
        replace_file(self.folder / name_of_moment(step), dump_moment(moment))
        steps = steps_in(self.folder)
        self.forget(set(steps).difference(thinned(steps, MOST)))

    def forget(self, steps: Iterable[int]) -> None:
        for step in list(steps):
            (self.folder / name_of_moment(step)).unlink(missing_ok=True)

    def with_care(self, act: Callable[[], None]) -> None:
        """Do `act`; a full disk, too little memory or a file in place of the folder is no reason to stop."""
        try:
            act()
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) else first_line(error)
            if not self.failed:
                self.say(f"{self.folder} cannot be written ({why}); training continues without it")
            self.failed = True


def early_steps(validate_every: int) -> set[int]:
    """Steps a half, a quarter, … of the way to the first validation: by then, many heads have already settled."""
    return {validate_every >> n for n in range(1, HALVINGS + 1)} - {0}


def moments_of(session: Session) -> Moments:
    """The `Moments` of a run. In a team, only the first process keeps any."""
    wanted = session.config.replay and session.team.first
    return Moments(session.run.replay, session.task.example() if wanted else None, session.show.say)
