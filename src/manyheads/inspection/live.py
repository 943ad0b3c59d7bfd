"""The questions that the page asks about a model, answered one at a time. The last few answers are kept for what comes next.

An answer has a number. Its planes are fetched by that number when they are looked at, and a later question may be held
against it: how likely is that output without these heads?
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
"""What a page sends where nobody has chosen anything. (An empty target is one that is only an end.)"""
LARGEST = 64 << 20
"""Bytes of planes of one answer: they are only fetched when they are looked at."""


class BusyError(ManyheadsError):
    """Too many questions wait already."""


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
        """The header of an answer, with its number; and how another one's output fares when these heads are off.

        A question says how to write: a length as people say it, else what `inspect` takes. What this model cannot be told is refused there.
        """
        other = None if against is None else self.answer(against).inspection
        with self.alone():
            found = inspect(self.translator, text, off=off, report=self.report, **options_of(question))
            held = None if other is None else held_against(found, other) | {"number": against}
            return self.add(found, text, held)

    def add(self, found: Translated, text: str, held: dict[str, Any] | None = None) -> dict[str, Any]:
        """An answer that is there already gets a number."""
        number, answer = next(self.numbers), Answer(found, make_bundle(found, LARGEST))
        self.keep(number, answer)
        return answer.bundle.header | {"number": number, "live": True, "text": text, "against": held}

    def plane(self, number: int, name: str) -> bytes:
        planes = self.answer(number).bundle.planes
        if name not in planes:
            raise GoneError(f"answer {number} has no plane {name!r}")
        return planes[name].tobytes()

    def importance(self, number: int, instead: str = "zero") -> list[dict[str, Any]]:
        """Every head, and what it does for this output; the most important first."""
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
        """One that is asked for stays longest: other questions may be held against it again and again."""
        with self.shelf:
            if number not in self.answers:
                raise GoneError(f"answer {number} is not kept any longer: ask again")
            self.answers.move_to_end(number)
            return self.answers[number]

    def alone(self) -> "Alone":
        return Alone(self)


def options_of(question: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of how to write."""
    said = {name: value for name, value in question.items() if value is not None and value != UNSAID.get(name)}
    length = length_options(said.pop("length", None))
    return said | length


def tells_of(translator: Translator) -> tuple[str, ...]:
    """What this model can be told about how it writes, by a page that asks it."""
    if not isinstance(translator, ParallelTranslator):
        return ("beam",)
    return tuple(
        name for name in ("iterations", "length") if name not in MEANINGLESS[translator.recipe.parallel.writes]
    )


def held_against(found: Translated, other: Translated) -> dict[str, Any]:
    """How likely another output is for the model that this one comes from, and what that changes. Where places are filled in several times, an output is
    what the iteration that is looked at wrote."""
    now, before = (log_probability(other, one.off, one.means) for one in (found, other))
    return {"log_probability": now, "change": now - before}


class Alone:
    """A turn with the model. Who would have to wait behind too many is told so at once."""

    def __init__(self, live: Live) -> None:
        self.live = live

    def __enter__(self) -> None:
        if not self.live.room.acquire(blocking=False):
            raise BusyError("too many questions are waiting: try again in a moment")
        self.live.turn.acquire()

    def __exit__(self, *_: object) -> None:
        self.live.turn.release()
        self.live.room.release()
