"""Where lines of output go: a file that is replaced when all are written, standard output, or a device."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TextIO

from manyheads.errors import OptionError, not_written

__all__ = ["check_folder", "open_output", "refuse_same", "standard_output"]


def check_folder(path: str) -> None:
    """What takes minutes to make should have a place to go to."""
    folder = os.path.dirname(path) or "."
    if path != "-" and not os.path.isdir(folder):
        raise OptionError(f"a file is written to a folder that is there, got {path}", hint=f"mkdir -p {folder}")


def refuse_same(written: str, *read: str) -> None:
    from manyheads.text.output import check_apart

    check_apart(written, read)


@contextmanager
def open_output(path: str, flush: bool) -> Iterator[Callable[[str], object]]:
    """Takes lines. A file is replaced when all of them are written."""
    from manyheads.text.output import line_writer

    if path != "-" and (os.path.isfile(path) or not os.path.exists(path)):
        with line_writer(path) as write:
            yield write
        return
    with standard_output() if path == "-" else open_device(path) as file:
        yield partial(print, file=file, flush=flush)


@contextmanager
def standard_output() -> Iterator[TextIO]:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="strict")  # as what goes in, whatever the terminal is set to
    yield sys.stdout
    sys.stdout.flush()


@contextmanager
def open_device(path: str) -> Iterator[TextIO]:
    """A pipe or a device is not replaced; whoever types and reads there waits for an answer."""
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise not_written(path, error) from None
