"""Saves outside the regular schedule, for when a power cut would cost more than a few minutes of work.

Steps may take long, and regular saves are counted in steps. An extra save changes nothing about a run: its checkpoint
is removed as soon as there is a newer one (`checkpoints`).
"""

import time

__all__ = ["OVERDUE", "Overdue"]

OVERDUE = 1
"""What a process reports when a save is overdue: more than 0, which is nothing, and less than any signal's number."""

HEARD_AGAIN = 2
"""Steps after a save in which reports are ignored: they arrive a step late, so they were made before the save."""


class Overdue:
    """Knows when a save is overdue.

    minutes   of work that may be lost; 0 = never overdue
    """

    def __init__(self, minutes: float, step: int) -> None:
        self.seconds = 60 * minutes
        self.saved(step)

    def saved(self, step: int) -> None:
        self.step, self.since = step, time.monotonic()

    def says(self) -> int:
        """What this process reports to all: each process has a clock of its own."""
        return OVERDUE if self.seconds and time.monotonic() - self.since > self.seconds else 0

    def heard(self, said: int, step: int) -> bool:
        """True if an overdue save is due at this step. `said` is the same in every process, and so is the answer."""
        return said == OVERDUE and step > self.step + HEARD_AGAIN
