"""Answers the page's questions about a model, one at a time, and keeps the last few answers.

An answer has a number. The page fetches its planes by that number when they are shown, and a later question can be
compared with it: how likely is that output without these heads?
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from threading import BoundedSemaphore, Lock
from typing import Any

from manyheads.decoding.parallel_translator import MEANINGLESS, ParallelTranslator
from manyheads.decoding.said_length import length_options
from manyheads.decoding.translator import Translator
from manyheads.errors import ManyheadsError
from manyheads.inspection.api import inspect
from manyheads.inspection.attribution import attribute
from manyheads.inspection.bundle import Bundle, make_bundle
from manyheads.inspection.headreport import HeadReport
from manyheads.inspection.importance import log_probability, ranked
from manyheads.inspection.inspected import Translated
from manyheads.inspection.switches import Head

__all__ = ["BusyError", "GoneError", "Live", "tells_of"]

KEPT = 8
WAITING = 16
UNSAID = {"prefix": "", "beam": 0, "iterations": 0, "iteration": 0, "length": ""}
"""What a page sends for an option that is not set. (An empty target counts as set: it is only an end.)"""
LARGEST = 64 << 20
"""Most bytes of planes of one answer. Planes are only fetched when they are shown."""


class BusyError(ManyheadsError):
    """Too many questions are waiting already."""


class GoneError(ManyheadsError):
    """An answer that is no longer kept."""


@dataclass(frozen=True, eq=False)
class Answer:
    inspection: Translated
    bundle: Bundle


class Live:
    def __init__(self, translator: Translator, report: HeadReport | None = None) -> None:
        self.translator, self.report = translator, report
        self.answers: OrderedDict[int, Answer] = OrderedDict()
        self.numbers, self.turn, self.room = count(1), Lock(), BoundedSemaphore(WAITING)
        self.shelf = Lock()

    def inspect(
        self, text: str, off: Collection[Head] = (), against: int | None = None, **question: Any
    ) -> dict[str, Any]:
        """Ask the model, and return the header of the answer, with its number.

        against    the number of an earlier answer, whose output is also scored with these heads off
        question   options of `inspect`, which refuses those that mean nothing to this model; `length` as users write it
        """
        other = None if against is None else self.answer(against).inspection
        with self.alone():
            found = inspect(self.translator, text, off=off, report=self.report, **options_of(question))
            held = None if other is None else held_against(found, other) | {"number": against}
            return self.add(found, text, held)

    def add(self, found: Translated, text: str, held: dict[str, Any] | None = None) -> dict[str, Any]:
        """Number and keep an inspection that is already made, and return its header."""
        number, answer = next(self.numbers), Answer(found, make_bundle(found, LARGEST))
        self.keep(number, answer)
        return answer.bundle.header | {"number": number, "live": True, "text": text, "against": held}

    def plane(self, number: int, name: str) -> bytes:
        planes = self.answer(number).bundle.planes
        if name not in planes:
            raise GoneError(f"answer {number} has no plane {name!r}")
        return planes[name].tobytes()

    def importance(self, number: int, instead: str = "zero") -> list[dict[str, Any]]:
        """Every head and what it does for this output, the most important first."""
        answer = self.answer(number)
        with self.alone():
            return ranked(answer.inspection, instead)

    def attribution(self, number: int, method: str) -> dict[str, Any]:
        """What this output owes to what was read."""
        answer = self.answer(number)
        with self.alone():
            return attribute(answer.inspection, method).as_json()

    def keep(self, number: int, answer: Answer) -> None:
        with self.shelf:
            self.answers[number] = answer
            while len(self.answers) > KEPT:
                self.answers.popitem(last=False)

    def answer(self, number: int) -> Answer:
        """A kept answer, moved to the end of the queue: questions may be compared with it again and again."""
        with self.shelf:
            if number not in self.answers:
                raise GoneError(f"answer {number} is no longer kept: ask again")
            self.answers.move_to_end(number)
            return self.answers[number]

    def alone(self) -> "Alone":
        return Alone(self)


def options_of(question: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a question sets."""
    said = {name: value for name, value in question.items() if value is not None and value != UNSAID.get(name)}
    length = length_options(said.pop("length", None))
    return said | length


def tells_of(translator: Translator) -> tuple[str, ...]:
    """The options of how to write that a page offers for this model."""
    if not isinstance(translator, ParallelTranslator):
        return ("beam",)
    return tuple(
        name for name in ("iterations", "length") if name not in MEANINGLESS[translator.recipe.parallel.writes]
    )


def held_against(found: Translated, other: Translated) -> dict[str, Any]:
    """How likely the other output is with the heads of `found` off, and how much that differs from before.

    If places are filled in several times, an output is what the inspected iteration wrote.
    """
    now, before = (log_probability(other, one.off, one.means) for one in (found, other))
    return {"log_probability": now, "change": now - before}


class Alone:
    """A turn with the model. A question that finds too many waiting raises BusyError at once."""

    def __init__(self, live: Live) -> None:
        self.live = live

    def __enter__(self) -> None:
        if not self.live.room.acquire(blocking=False):
            raise BusyError("too many questions are waiting: try again in a moment")
        self.live.turn.acquire()

    def __exit__(self, *_: object) -> None:
        self.live.turn.release()
        self.live.room.release()
