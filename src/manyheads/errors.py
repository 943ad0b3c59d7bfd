"""Every error Manyheads raises on purpose.

    ManyheadsError
    ├── OptionError   (ValueError)   an option, a recipe or an argument that is not allowed; raised on building
    ├── TensorError   (ValueError)   a tensor of the wrong shape or dtype; raised on calling
    ├── InputError    (ValueError)   a file, a text or a folder that cannot be used
    ├── SaveError     (OSError)      something that could not be written: a full disk, a folder without write permission
    └── TrainingError (RuntimeError) training that cannot continue: it diverged

A message is one sentence: the rule, the value given, where it came from. The hint, printed after a blank line, says
what to do about it. `status` is the exit status of the command.
"""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TypeVar

__all__ = [
    "InputError", "ManyheadsError", "OptionError", "SaveError", "TensorError", "TrainingError",
    "brief", "choose", "did_you_mean", "how_many", "nearest", "not_written",
]  # fmt: skip

Choice = TypeVar("Choice")


class ManyheadsError(Exception):
    """An error with a message for people and, where there is something to do about it, a hint."""

    status = 1
    said = False
    """Whether another process of the same team has printed it already."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n\nhint: {self.hint}" if self.hint else self.message


class OptionError(ManyheadsError, ValueError):
    """An option that is not allowed, found before anything runs."""

    status = 2


class TensorError(ManyheadsError, ValueError):
    """A tensor whose shape or dtype does not fit."""

    status = 2


class InputError(ManyheadsError, ValueError):
    """A file, a text or a folder that cannot be used as it is."""

    status = 2


class SaveError(ManyheadsError, OSError):
    """Something could not be written; what was saved before is untouched."""


class TrainingError(ManyheadsError, RuntimeError):
    """Training cannot continue; the last save is untouched."""


def not_written(path: object, error: OSError) -> SaveError:
    return SaveError(f"{path} could not be written: {error.strerror or error}")


def brief(value: object) -> str:
    """The repr of a value, cut if it would fill the screen."""
    try:
        shown = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, tables in tables in tables
        shown = f"a {type(value).__name__} too large to show"
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


def how_many(count: int, what: str) -> str:
    """ "1 pair" or "2,000 pairs": `what` is the singular."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def did_you_mean(given: str, known: Collection[str]) -> str:
    """A hint that names the nearest known word, or all of them when none is near."""
    return nearest(given, known) or f"choose one of {', '.join(map(repr, known))}"


def first_line(error: BaseException) -> str:
    """An error of another library, in one line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def nearest(given: str, known: Collection[str]) -> str | None:
    """A hint that names the nearest known word, if one is near."""
    near = get_close_matches(given, known, n=1)
    return f"did you mean {near[0]!r}?" if near else None


def choose(option: str, given: str, known: Mapping[str, Choice]) -> Choice:
    """The entry of `known` that an option names; an unknown name is refused with the nearest one."""
    if given not in known:
        raise OptionError(
            f"{option} must be one of {', '.join(map(repr, known))}, got {given!r}",
            hint=nearest(str(given), known),
        )
    return known[given]
