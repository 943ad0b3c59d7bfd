"""Ctrl-C: once is a wish to stop, twice at once is the same wish, and once more later is an order."""

import signal

import pytest

from manyheads.training import signals
from manyheads.training.signals import listen


@pytest.fixture
def clock(monkeypatch):
    """Seconds that are what the test says, in a process that hears Ctrl-C: one that a script has sent to the background does not."""
    now = [0.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: now[0])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield now
    signal.signal(signal.SIGINT, before)


def test_who_presses_twice_at_once_means_once(clock):
    with listen() as request:
        signal.raise_signal(signal.SIGINT)
        clock[0] = 0.5
        signal.raise_signal(signal.SIGINT)
        assert request.number == signal.SIGINT


def test_who_presses_again_later_does_not_wait(clock):
    with listen() as request:
        signal.raise_signal(signal.SIGINT)
        assert request.number == signal.SIGINT
        clock[0] = 1.5
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_torchrun_says_everything_several_times(clock, monkeypatch):
    monkeypatch.setenv(signals.TORCHRUN, "one")
    with listen() as request:
        signal.raise_signal(signal.SIGINT)
        clock[0] = 9.0
        signal.raise_signal(signal.SIGINT)
        assert request.number == signal.SIGINT


def test_afterwards_signals_are_as_before(clock):
    before = signal.getsignal(signal.SIGINT)
    with listen():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
