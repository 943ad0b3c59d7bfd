"""Signs of life, on a terminal, of what takes its time. Elsewhere nothing is said."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console
from rich.status import Status

__all__ = ["counted", "counting", "working"]

EVERY = 10


def working(what: str) -> AbstractContextManager[Status | None]:
    """That it is under way."""
    console = Console(file=sys.stderr)
    return console.status(f"{what} …") if console.is_terminal else nullcontext()


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], object]]:
    """How far it is, of how many."""
    with working(what) as status:
        yield lambda done, of: status and status.update(f"{done:,} of {of:,} {what} …")


@contextmanager
def counted(what: str, *, seen: bool) -> Iterator[Callable[[int], object]]:
    """How many there are so far, unless that is seen anyway."""
    with nullcontext() if seen else working(what) as status:
        yield lambda done: status and done % EVERY == 0 and status.update(f"{done:,} {what} …")
