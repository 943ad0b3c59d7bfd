"""How threads that compute together wait for one another.

Many thousand times a second the first thread to finish waits for the last. PyTorch's OpenMP (libgomp) keeps a core
busy with waiting for as long as another thread may take to be given a core. That does no harm on a machine with
nothing else to do; but two trainings on two cores spend nearly all of their time waiting, each for a thread whose
core is taken by one that waits. With 3,000 rounds of busy waiting, and sleep after that, a training alone is not
measurably slower, and one beside another is 1.6 to 8 times as fast (`benchmarks/side_by_side.py`, docs/decisions.md).
Variables that are already set are left alone.
"""

import os
from collections.abc import MutableMapping

__all__ = ["ROUNDS", "wait_asleep"]

ROUNDS = 3_000
SET_BY_HAND = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def wait_asleep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set GOMP_SPINCOUNT. Call this before torch is imported: OpenMP reads it then, and never again."""
    if not any(name in environment for name in SET_BY_HAND):
        environment["GOMP_SPINCOUNT"] = str(ROUNDS)
