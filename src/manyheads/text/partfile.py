"""Files of lines that take long to make: finished lines survive `kill -9` and a power cut.

    OUT.part    first, as JSON, what the lines are made from; then the lines, one lot at a time

OUT appears when all lines are there. Only complete lots count, so lines made after a stop share their lot with the same
lines as they would without one. One process works on a file at a time.
"""

import fcntl
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from manyheads.errors import InputError, OptionError
from manyheads.storage import replace_file, saving, sync, sync_file
from manyheads.text.output import line_writer

__all__ = ["PartFile", "check_part", "finished_lines"]


def part_of(out: str | Path) -> Path:
    return Path(f"{out}.part")


def check_part(out: str | Path, resume: bool) -> None:
    """Before any work is done: refuse if it is not clear whether to resume."""
    place = part_of(out)
    if place.exists() and not resume:
        raise OptionError(
            f"unfinished work must be continued with --resume, got {place} without it",
            hint=f"to start over: rm {place}",
        )
    if resume and Path(out).exists() and not place.exists():
        raise OptionError(
            f"--resume continues unfinished work, got {out}, which is finished: there is no {place.name}",
            hint="without --resume it is made again",
        )


def finished_lines(out: str | Path, lot: int) -> int:
    """The lines in a part that count: those of complete lots."""
    with part_of(out).open("rb") as file:
        file.readline()  # says what they are made from
        return sum(map(len, iter(partial(read_lot, file, lot), [])))


class PartFile:
    """Lines in the making, for a `with` statement.

    made_from   everything that determines the lines: a part made from anything else is refused
    is_line     whether a line looks like those that are added: a part that was damaged meanwhile is refused
    lot         lines added at a time (the last lot may be smaller)
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
                f"only one process may work on a file at a time, got another one at work on {self.place}"
            ) from None

    def go_on(self) -> int:
        """Keep the complete lots, and return how many lines they have.

        Anything after them was being written at the stop.
        """
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
                f"unfinished work must be continued as it was started, got {self.place}, made with another {' and another '.join(changed)}",
                hint=f"to start over: rm {self.place}",
            )

    def check_lines(self, lines: Sequence[bytes], before: int) -> None:
        for number, line in enumerate(lines, before + 2):  # the first line says what they are made from
            try:
                good = self.is_line(line.decode().removesuffix("\n"))
            except UnicodeDecodeError:
                good = False
            if not good:
                raise InputError(f"{self.place} is damaged, in line {number}", hint=f"to start over: rm {self.place}")

    def add(self, lines: Sequence[str]) -> None:
        """Write the next lot. Once this returns, the lot is safe on disk."""
        with saving(self.place):
            self.file.write("".join(f"{line}\n" for line in lines).encode())
            sync_file(self.file)
        self.done += len(lines)

    def finish(self, last: Callable[[str], str]) -> None:
        """Write the finished file, in which `last` turns each line into its final form, and remove the part."""
        self.file.seek(0)
        self.file.readline()
        with saving(self.place):
            with line_writer(self.out) as write:
                for line in self.file:
                    write(last(line.decode().removesuffix("\n")))
            sync(Path(self.out).absolute().parent)  # the file is on disk before its part is gone
            self.place.unlink()


def read_lot(file: BinaryIO, lot: int) -> list[bytes]:
    """The next complete lot, or nothing if there is none."""
    lines = list(islice(file, lot))
    return lines if len(lines) == lot and lines[-1].endswith(b"\n") else []
