"""Lines that take long to make: their file appears when all are there, and those that are made already survive `kill -9` and a power cut.

    OUT.part    first, as JSON, what the lines are made from; then lines, so many at a time

Only whole lots of lines count. What is made after a stop is then made in the same company as without it. One process works on it at a time.
"""

import fcntl
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from manyheads.errors import InputError, OptionError
from manyheads.storage import replace_file, saving, sync, sync_file
from manyheads.text.output import line_writer

__all__ = ["PartFile", "check_part"]


def part_of(out: str | Path) -> Path:
    return Path(f"{out}.part")


def check_part(out: str | Path, resume: bool) -> None:
    """Before anything else is done: is it clear whether to go on?"""
    place = part_of(out)
    if place.exists() and not resume:
        raise OptionError(
            f"what was stopped goes on with --resume, got {place} and no --resume", hint=f"to begin anew: rm {place}"
        )
    if resume and Path(out).exists() and not place.exists():
        raise OptionError(
            f"--resume goes on with what was stopped, got {out}, which is finished: there is no {place.name}",
            hint="without --resume it is made again",
        )


class PartFile:
    """For a `with` statement.

    made_from   whatever the lines follow from: a part of other lines is refused
    is_line     does a line look as those that are added? What was damaged meanwhile is refused
    lot         lines that are added at a time (the last ones may be fewer)
    done        lines that are there
    """

    def __init__(self, out: str | Path, made_from: Mapping[str, Any], lot: int, is_line: Callable[[str], bool]) -> None:
        self.out, self.place, self.lot, self.is_line = str(out), part_of(out), lot, is_line
        self.made_from = {**made_from, "lot": lot}

    def __enter__(self) -> "PartFile":
        with saving(self.place):
            if not self.place.exists():
                replace_file(self.place, json.dumps(self.made_from).encode() + b"\n")
            self.file = open(self.place, "r+b")
        try:
            self.lock()
            with saving(self.place):
                self.done = self.go_on()
        except BaseException:
            self.file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def lock(self) -> None:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"one process works on a file at a time, got another one at work on {self.place}"
            ) from None

    def go_on(self) -> int:
        """Whole lots stay; what stands behind them was being written when it was stopped."""
        self.check(self.file.readline())
        done, end = 0, self.file.tell()
        while lines := read_lot(self.file, self.lot):
            self.check_lines(lines, done)
            done, end = done + self.lot, self.file.tell()
        self.file.truncate(end)
        self.file.seek(end)
        return done

    def check(self, stored: bytes) -> None:
        try:
            found = json.loads(stored) if stored.endswith(b"\n") else None
        except (ValueError, RecursionError):
            found = None
        if found is None:
            raise InputError(f"{self.place} does not say what it is made from", hint=f"rm {self.place}") from None
        others = found if isinstance(found, dict) else {}
        changed = [name for name in {**self.made_from, **others} if others.get(name) != self.made_from.get(name)]
        if changed:
            raise InputError(
                f"what was stopped goes on as it began, got {self.place}, made with another {' and another '.join(changed)}",
                hint=f"to begin anew: rm {self.place}",
            )

    def check_lines(self, lines: Sequence[bytes], before: int) -> None:
        for number, line in enumerate(lines, before + 2):  # the first says what they are made from
            try:
                good = self.is_line(line.decode().removesuffix("\n"))
            except UnicodeDecodeError:
                good = False
            if not good:
                raise InputError(f"{self.place} is damaged, in line {number}", hint=f"to begin anew: rm {self.place}")

    def add(self, lines: Sequence[str]) -> None:
        """The next lot: once this returns, it stays."""
        with saving(self.place):
            self.file.write("".join(f"{line}\n" for line in lines).encode())
            sync_file(self.file)
        self.done += len(lines)

    def finish(self, last: Callable[[str], str]) -> None:
        """All is there. `last` makes of each line what is to be written in the end."""
        self.file.seek(0)
        self.file.readline()
        with saving(self.place):
            with line_writer(self.out) as write:
                for line in self.file:
                    write(last(line.decode().removesuffix("\n")))
            sync(Path(self.out).absolute().parent)  # it is there before its part is gone
            self.place.unlink()


def read_lot(file: BinaryIO, lot: int) -> list[bytes]:
    """The next one, if there is another whole one."""
    lines = list(islice(file, lot))
    return lines if len(lines) == lot and lines[-1].endswith(b"\n") else []
