"""How threads that compute together wait for one another.

Whoever is first waits for the last, many thousand times a second. PyTorch's OpenMP (libgomp) keeps a core busy with waiting for as long as that of another thread
may take to be given one. A machine with nothing else to do is none the worse for it; but two trainings on two cores spend nearly all of their time waiting, each
for a thread whose core is taken by one that waits. Waiting three thousand rounds, and then asleep, no loss alone could be measured, and beside another
it is 1.6 to 8 times as fast (`benchmarks/side_by_side.py`, docs/decisions.md). What somebody has set stays.
"""

import os
from collections.abc import MutableMapping

__all__ = ["ROUNDS", "wait_asleep"]

ROUNDS = 3_000
SET_BY_HAND = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def wait_asleep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Before torch is imported: OpenMP reads it then, and never again."""
    if not any(name in environment for name in SET_BY_HAND):
        environment["GOMP_SPINCOUNT"] = str(ROUNDS)
