"""Checkpoints of a run: checkpoints/step-N, each whole or not there. The newest whole one is where a run goes on."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from manyheads.storage import is_whole
from manyheads.training.state import State

__all__ = ["Checkpoints"]

NAME = re.compile(r"step-(\d+)")


class Checkpoints:
    """The folder of a run's checkpoints; `keep` of them stay, the newest."""

    def __init__(self, folder: Path, keep: int, say: Callable[[str], None]) -> None:
        self.folder, self.keep, self.say = folder, keep, say

    def save(self, state: State) -> None:
        """A checkpoint of this step that is there already, by an attempt that got further than its log, is the same."""
        place = self.folder / f"step-{state.progress.step}"
        if not is_whole(place):
            shutil.rmtree(place, ignore_errors=True)
            state.save(place)
        self.forget_old()

    def steps(self) -> list[Path]:
        """Every checkpoint, the newest first."""
        if not self.folder.is_dir():
            return []
        named = [(int(match[1]), path) for path in self.folder.iterdir() if (match := NAME.fullmatch(path.name))]
        return [path for _, path in sorted(named, reverse=True)]

    def newest(self) -> Path | None:
        """The newest checkpoint that is whole; damaged ones are named and passed over."""
        for path in self.steps():
            if is_whole(path):
                return path
            self.say(f"{path} is damaged; the one before it is taken")
        return None

    def forget_old(self) -> None:
        """Only after a newer one is whole. That an old one cannot be removed is no reason to stop."""
        for path in self.steps()[self.keep :]:
            shutil.rmtree(path, ignore_errors=True)
