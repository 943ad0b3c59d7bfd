"""log.jsonl: one JSON object per line for every event of a run. It is for reading, and never needed to resume."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from manyheads.storage import append_line

__all__ = ["Listener", "Log", "Silent", "nobody", "read_log"]

Listener = Callable[[str, Mapping[str, Any]], None]
"""Called with each event and its values."""


def nobody(event: str, values: Mapping[str, Any]) -> None:
    """A listener that ignores every event."""


class Log:
    """Appends events to a file and passes them to `listener`.

    If the file cannot be written, that is reported once, and training continues without it.
    """

    def __init__(self, path: Path, say: Callable[[str], None], listener: Listener = nobody) -> None:
        self.path, self.say, self.listener, self.lost = path, say, listener, 0

    def write(self, event: str, **values: Any) -> None:
        self.listener(event, values)
        try:
            append_line(self.path, json.dumps({"event": event, **without_nan(values)}, ensure_ascii=False))
        except OSError as error:
            self.lost += 1
            if self.lost == 1:
                self.say(f"{self.path} cannot be written ({error.strerror}); training continues without it")


class Silent(Log):
    """The log of every process of a team but the first: it writes nothing."""

    def __init__(self) -> None: ...

    def write(self, event: str, **values: Any) -> None: ...


def without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """The values with None in place of NaN and infinity, which JSON does not have."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


def read_log(path: Path) -> list[dict[str, Any]]:
    """The events of a log. A line that a kill cut short is skipped."""
    events: list[Any] = []
    if not path.is_file():
        return events
    for line in path.read_bytes().split(b"\n"):
        try:
            events.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return [event for event in events if isinstance(event, dict) and "event" in event]
