"""Where output goes: to a file that is replaced when all lines are written, standard output, or a device."""

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
    """Refuse an output file whose folder is missing, before minutes of work."""
    folder = os.path.dirname(path) or "."
    if path != "-" and not os.path.isdir(folder):
        raise OptionError(f"an output file needs a folder that exists, got {path}", hint=f"mkdir -p {folder}")


def refuse_same(written: str, *read: str) -> None:
    from manyheads.text.output import check_apart

    check_apart(written, read)


@contextmanager
def open_output(path: str, flush: bool) -> Iterator[Callable[[str], object]]:
    """Open an output. Yields a function that writes a line; a file is replaced when all of them are written."""
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
        sys.stdout.reconfigure(encoding="utf-8", errors="strict")  # UTF-8 like the input, not as the terminal is set
    yield sys.stdout
    sys.stdout.flush()


@contextmanager
def open_device(path: str) -> Iterator[TextIO]:
    """Open a pipe or a device, which is written to directly and not replaced."""
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise not_written(path, error) from None
