"""Processes that say much on standard error, and what ends a test that waits for them in vain."""

import os
import signal
from contextlib import contextmanager

import pytest

MUCH = 1_000_000  # a pipe holds some 64,000


def make_noisy(folder, monkeypatch):
    """Every Python that is started from now on begins with it."""
    (folder / "sitecustomize.py").write_text(f"import sys\nprint('x' * {MUCH}, file=sys.stderr, flush=True)\n")
    given = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), given))))


@contextmanager
def patience(seconds):
    """A test that would hang fails."""

    def give_up(*_):
        pytest.fail(f"nothing came for {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
