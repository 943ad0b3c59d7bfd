"""Threads that wait do not keep cores from others; what OpenMP was told by somebody else stays."""

import os
import subprocess
import sys

import pytest

from manyheads.waiting import ROUNDS, wait_asleep


@pytest.mark.parametrize("given", [{}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "active"}])
def test_what_is_set_by_hand_stays(given):
    environment = {"PATH": "/bin", **given}
    wait_asleep(environment)
    assert environment == {"PATH": "/bin", **(given or {"GOMP_SPINCOUNT": str(ROUNDS)})}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PyTorch comes with another OpenMP")
@pytest.mark.parametrize(("given", "expected"), [({}, ROUNDS), ({"GOMP_SPINCOUNT": "7"}, 7)])
def test_openmp_has_heard_it(given, expected):
    """It shows what it goes by when it is loaded, which is after the command has begun."""
    ours = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-m", "manyheads", "translate", "de-en", "--device", "cpu"], input="Danke!\n",
        env={**ours, **given, "OMP_DISPLAY_ENV": "verbose", "OMP_NUM_THREADS": "1"}, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert f"GOMP_SPINCOUNT = '{expected}'" in done.stderr
