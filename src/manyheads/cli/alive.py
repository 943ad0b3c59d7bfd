"""Progress of slow work, shown on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console
from rich.status import Status

__all__ = ["counted", "counting", "invite", "is_typed", "working"]

EVERY = 10


def is_typed(path: str) -> bool:
    """Whether lines are read from a person at a terminal."""
    return path == "-" and sys.stdin.isatty()


def invite(path: str, what: str) -> None:
    """Say what to do, if lines are typed: a command that waits looks like one that hangs."""
    if is_typed(path):
        print(what, file=sys.stderr)  # noqa: T201


def working(what: str) -> AbstractContextManager[Status | None]:
    """Show that work is under way."""
    console = Console(file=sys.stderr)
    return console.status(f"{what} …") if console.is_terminal else nullcontext()


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], object]]:
    """Show how much is done, and of how much. Yields a function that takes both numbers."""
    with working(what) as status:
        yield lambda done, of: status and status.update(f"{done:,} of {of:,} {what} …")


@contextmanager
def counted(what: str, *, seen: bool) -> Iterator[Callable[[int], object]]:
    """Show how many are done so far, unless the output itself is `seen`. Yields a function that takes the number."""
    with nullcontext() if seen else working(what) as status:
        yield lambda done: status and done % EVERY == 0 and status.update(f"{done:,} {what} …")
