"""What several verbs share: options, and a count of what was odd."""

import sys
from typing import Annotated

from cyclopts import Parameter

__all__ = ["Device", "Files", "Json", "Settings", "say"]

Files = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())]
Settings = Annotated[tuple[str, ...], Parameter(name="--set", negative=(), consume_multiple=False, show_default=False)]
Json = Annotated[bool, Parameter(name="--json", negative=(), show_default=False)]
Device = Annotated[str, Parameter(name="--device")]


def say(count: int, what: str) -> None:
    """Lines that something was the matter with, on stderr, if there are any."""
    if count:
        print(f"{count:,} {'line' if count == 1 else 'lines'} {what}", file=sys.stderr)  # noqa: T201
