"""Checkpoints of a run: checkpoints/step-N, each whole or not there. The newest whole one is where a run goes on."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from manyheads.storage import is_whole, write_folder

__all__ = ["Checkpoints"]


class Checkpoints:
    """The folder of a run's checkpoints; `keep` of them stay, the newest.

    One that was saved out of turn, because someone stopped the run, goes as soon as there is a newer one: the others are
    then those of a run that nobody stopped, and so is their mean.
    """

    def __init__(self, folder: Path, say: Callable[[str], None], *, every: int = 1, keep: int = 1) -> None:
        self.folder, self.say, self.every, self.keep = folder, say, every, keep

    def save(self, step: int, contents: Mapping[str, bytes]) -> None:
        """What lies beyond this step is damaged: a run goes on from the newest that is not. What lies at it is damaged, or is replaced, when the new one is
        whole."""
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
        """The newest checkpoint that is whole; damaged ones are named and passed over."""
        for path in self.steps():
            if is_whole(path):
                return path
            self.say(f"{path} is damaged; the one before it is taken")
        return None

    def forget_others(self, saved: Path) -> None:
        """Only now that a newer one is whole. That an old one cannot be removed is no reason to stop."""
        before = [path for path in self.steps() if step_of(path) < step_of(saved)]
        in_turn = [path for path in before if step_of(path) % self.every == 0]
        staying = {saved, *in_turn[: self.keep - 1]}
        for path in self.folder.iterdir():  # also what a kill left half written
            if path not in staying:
                shutil.rmtree(path, ignore_errors=True)


def named_by_step(path: Path) -> bool:
    return re.fullmatch(r"step-\d+", path.name) is not None


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))
