"""What a log says about a run: curves, figures, samples.

A log may be truncated, damaged or missing: whatever is left of it is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from manyheads.report.charts import Curve
from manyheads.tasks.task import Sample
from manyheads.training.log import read_log

__all__ = ["NO_METRIC", "NO_SCORE", "History", "as_number", "name_of", "read_history"]

Event = dict[str, Any]

NAMES = {
    "loss": "dev loss", "bleu": "BLEU", "chrf": "chrF", "wer": "word error rate", "per": "phone error rate",
}  # fmt: skip
NO_SCORE = ("loss", "perplexity")
ENDINGS = ("average", "final", "after", "stopped")
NO_METRIC = ("event", "step", "score", "best", "reason", "samples", "on")
LARGEST = 1e100
"""Numbers beyond this cannot be drawn."""


@dataclass(frozen=True)
class History:
    """The events of a run that count, in order."""

    events: list[Event]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["event"] == kind]

    def last(self, kind: str) -> Event:
        """The last event of a kind, empty if there is none."""
        return (self.of(kind) or [{}])[-1]

    def result(self) -> Event:
        """The event with the model's scores: as it will be used, or else as it was last validated."""
        return self.last("final") or self.last("average") or self.last("validation")

    def metrics(self) -> dict[str, float]:
        """The scores of the result, by name."""
        values = {str(key): as_number(value) for key, value in self.result().items() if key not in NO_METRIC}
        return {key: value for key, value in values.items() if value is not None}

    def curve(self, name: str, kind: str, key: str) -> Curve:
        """A value over the steps. Values that are not finite numbers are left out and counted."""
        values = {
            step: as_number(event[key])
            for event in self.of(kind)
            if key in event and (step := step_of(event)) is not None
        }
        points = [(step, value) for step, value in sorted(values.items()) if value is not None]
        return Curve(name, points, lost=len(values) - len(points))

    def losses(self) -> list[Curve]:
        return [self.curve("training", "step", "loss"), self.curve("dev", "validation", "loss")]

    def scores(self) -> list[Curve]:
        """The curves of all scores on the development set."""
        keys = dict.fromkeys(key for event in self.of("validation") for key in event if is_score(event, key))
        return [self.curve(name_of(key), "validation", key) for key in keys]

    def best_step(self) -> int | None:
        """The step at which the model was chosen: the last validation with the highest score."""
        scores = self.curve("", "validation", "score").points
        return max(scores, key=lambda point: (point[1], point[0]))[0] if scores else None

    def samples(self) -> list[Sample]:
        """The outputs for the first pairs of the development set, at the end."""
        return list(samples_of(self.result()))

    def outputs(self) -> list[tuple[int, str]]:
        """(step, output) of the first sample at each validation; a step that occurs twice counts once."""
        seen = {
            step: sample.output
            for event in self.of("validation")
            for sample in list(samples_of(event))[:1]
            if (step := step_of(event)) is not None
        }
        return sorted(seen.items())


def name_of(key: str) -> str:
    """The display name of a metric."""
    return NAMES.get(key, key)


def is_score(event: Event, key: str) -> bool:
    return key not in (*NO_SCORE, *NO_METRIC) and isinstance(event[key], int | float)


def read_history(path: Path) -> History:
    try:
        return History(list(those_that_count(read_log(path))))
    except (OSError, RecursionError):
        return History([])


def those_that_count(events: list[Event]) -> list[Event]:
    """The events that still count after a run was resumed.

    It resumes from its last save: whatever came after that save, and how the run had ended, is void.
    """
    kept: list[Event] = []
    for event in events:
        start = step_of(event) if event["event"] == "start" else None
        if start is not None:
            kept = [e for e in kept if e["event"] not in ENDINGS and (step_of(e) or 0) <= start]
        kept.append(event)
    return kept


def step_of(event: Event) -> int | None:
    step = as_number(event.get("step"))
    return int(step) if step is not None and 0 <= step < 1e15 else None


def samples_of(event: Event) -> Iterator[Sample]:
    listed = event.get("samples")
    for sample in listed if isinstance(listed, list) else []:
        if isinstance(sample, dict):
            yield Sample(*(as_text(sample.get(key)) for key in ("source", "target", "output")))


def as_number(value: object) -> float | None:
    """The value as a finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST < value < LARGEST:
        return None
    return float(value) if isfinite(value) else None


def as_text(value: object) -> str:
    """The value as text that a file can hold: JSON, unlike a file, can contain half a surrogate pair."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
