"""Signs of life, on a terminal, of what takes its time. Elsewhere nothing is said."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console

__all__ = ["counted", "counting", "working"]

EVERY = 10


def working(what: str) -> AbstractContextManager[object]:
    """That it is under way."""
    console = Console(file=sys.stderr)
    return console.status(f"{what} …") if console.is_terminal else nullcontext()


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], object]]:
    """How far it is, of how many."""
    with working(what) as status:
        yield lambda done, of: status and status.update(f"{done:,} of {of:,} {what} …")  # type: ignore[attr-defined]


@contextmanager
def counted(what: str, output: str) -> Iterator[Callable[[int], object]]:
    """How many there are so far, unless they are seen: where output goes to the terminal itself."""
    if output == "-" and sys.stdout.isatty():
        yield lambda done: None
        return
    with working(what) as status:
        yield lambda done: status and done % EVERY == 0 and status.update(f"{done:,} {what} …")  # type: ignore[attr-defined]
