"""What an examiner is: it reads all pairs once to learn what is usual, and once more to judge each of them.

N pairs of a block
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from jaxtyping import Bool

from manyheads.text.rows import Pair

__all__ = ["Examiner", "Verdicts"]

Verdicts = Mapping[str, Bool[np.ndarray, " N"]]


class Examiner(Protocol):
    """Answers one kind of question about pairs. It holds few of them, so that a corpus of any size can be examined."""

    @property
    def finds(self) -> Sequence[str]:
        """Names from `FINDINGS`."""
        ...

    def learn(self, pairs: Sequence[Pair]) -> None:
        """Look at a block of pairs. Every block comes once, in order."""
        ...

    def settle(self) -> None:
        """Decide what is usual, now that all pairs have been seen."""
        ...

    def judge(self, pairs: Sequence[Pair]) -> Verdicts:
        """For each finding, which pairs of a block have it. The same blocks come again, in the same order."""
        ...
