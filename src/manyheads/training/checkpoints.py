"""Checkpoints of a run: checkpoints/step-N, each whole or absent. A run resumes from the newest whole one."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from manyheads.storage import is_whole, write_folder

__all__ = ["Checkpoints"]


class Checkpoints:
    """The folder of a run's checkpoints. The newest `keep` of them stay.

    One whose step is not a multiple of `every`, saved because the run was stopped, say, is removed as soon as there is
    a newer one. The rest, and their mean, are then those of a run that was never stopped.
    """

    def __init__(self, folder: Path, say: Callable[[str], None], *, every: int = 1, keep: int = 1) -> None:
        self.folder, self.say, self.every, self.keep = folder, say, every, keep

    def save(self, step: int, contents: Mapping[str, bytes]) -> None:
        """Write a checkpoint, then remove those that are no longer needed.

        Any beyond this step are damaged, because a run resumes from the newest that is not. One of this step is
        replaced once the new one is whole.
        """
        place = self.folder / f"step-{step}"
        write_folder(place, contents, instead=True)
        self.forget_others(place)

    def steps(self) -> list[Path]:
        """Every checkpoint, the newest first."""
        if not self.folder.is_dir():
            return []
        return sorted(filter(named_by_step, self.folder.iterdir()), key=step_of, reverse=True)

    def any_whole(self) -> bool:
        return any(map(is_whole, self.steps()))

    def newest(self) -> Path | None:
        """The newest checkpoint that is whole; damaged ones are reported and skipped."""
        for path in self.steps():
            if is_whole(path):
                return path
            self.say(f"{path} is damaged; using the one before it")
        return None

    def forget_others(self, saved: Path) -> None:
        """Remove old checkpoints, now that a newer one is whole. One that cannot be removed is no reason to stop."""
        before = [path for path in self.steps() if step_of(path) < step_of(saved)]
        in_turn = [path for path in before if step_of(path) % self.every == 0]
        staying = {saved, *in_turn[: self.keep - 1]}
        for path in self.folder.iterdir():  # including what a kill left half written
            if path not in staying:
                shutil.rmtree(path, ignore_errors=True)


def named_by_step(path: Path) -> bool:
    return re.fullmatch(r"step-\d+", path.name) is not None


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))
