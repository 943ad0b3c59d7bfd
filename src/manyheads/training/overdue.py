"""A save out of turn, when more work than some minutes' would be lost by a power cut: steps may take long, and saves in turn are counted in steps.

It changes nothing of a run: what was saved out of turn goes as soon as there is a newer checkpoint (`checkpoints`).
"""

import time

__all__ = ["OVERDUE", "Overdue"]

OVERDUE = 1
"""Among what processes tell each other at every step: more than silence, less than the number of any signal that ends a run."""

HEARD_AGAIN = 2
"""Steps after a save in which it is still heard: processes hear what was said a step before, and said it before they had saved."""


class Overdue:
    """
    minutes   that may be lost; 0 = whatever is lost
    """

    def __init__(self, minutes: float, step: int) -> None:
        self.seconds = 60 * minutes
        self.saved(step)

    def saved(self, step: int) -> None:
        self.step, self.since = step, time.monotonic()

    def says(self) -> int:
        """For all processes to hear: each has a clock of its own."""
        return OVERDUE if self.seconds and time.monotonic() - self.since > self.seconds else 0

    def heard(self, said: int, step: int) -> bool:
        """Is this step one to save at? The same in every process."""
        return said == OVERDUE and step > self.step + HEARD_AGAIN
