"""Lines that take long to make: their file appears when all are there, and those that are made already survive `kill -9`.

    OUT.part    first, as JSON, what the lines are made from; then lines, so many at a time

Only whole lots of lines count. What is made after a stop is then made in the same company as without it, to the last bit.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from manyheads.errors import InputError, OptionError
from manyheads.storage import saving, sync_file
from manyheads.text.output import line_writer

__all__ = ["PartFile"]


class PartFile:
    """
    made_from   whatever the lines follow from: a part of other lines is refused
    lot         lines that are added at a time (the last ones may be fewer)
    done        lines that are there
    """

    def __init__(self, out: str | Path, made_from: Mapping[str, Any], lot: int, resume: bool) -> None:
        self.out, self.place, self.lot = str(out), Path(f"{out}.part"), lot
        self.made_from = {**made_from, "lot": lot}
        if self.place.exists() and not resume:
            raise OptionError(
                f"what was stopped goes on with --resume, got {self.place} and no --resume", hint=f"or rm {self.place}"
            )
        with saving(self.place):
            self.done = self.go_on() if self.place.exists() else self.begin()

    def begin(self) -> int:
        with open(self.place, "wb") as file:
            file.write(json.dumps(self.made_from).encode() + b"\n")
            sync_file(file)
        return 0

    def go_on(self) -> int:
        """Whole lots stay; what stands behind them was being written when it was stopped."""
        with open(self.place, "r+b") as file:
            self.check(file.readline())
            done, end = 0, file.tell()
            while self.read_lot(file):
                done, end = done + self.lot, file.tell()
            file.truncate(end)
        return done

    def read_lot(self, file: BinaryIO) -> bool:
        """Is there another whole one?"""
        return all(file.readline().endswith(b"\n") for _ in range(self.lot))

    def check(self, stored: bytes) -> None:
        try:
            found = json.loads(stored)
        except ValueError:
            raise InputError(f"{self.place} does not say what it is made from", hint=f"rm {self.place}") from None
        if found == self.made_from:
            return
        others = found if isinstance(found, dict) else {}
        changed = [name for name in self.made_from if others.get(name) != self.made_from[name]]
        raise InputError(
            f"what was stopped goes on as it began, got {self.place}, made with another {' and another '.join(changed) or 'program'}",
            hint=f"rm {self.place}, to begin anew",
        )

    def add(self, lines: Sequence[str]) -> None:
        """The next lot: once this returns, it stays."""
        with saving(self.place), open(self.place, "ab") as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
            sync_file(file)
        self.done += len(lines)

    def finish(self, last: Callable[[str], str]) -> None:
        """All is there. `last` makes of each line what is to be written in the end."""
        with line_writer(self.out) as write, open(self.place, encoding="utf-8", newline="\n") as file:
            file.readline()
            for line in file:
                write(last(line.removesuffix("\n")))
        self.place.unlink()
