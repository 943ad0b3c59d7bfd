"""The meter, with a GPU that is on a screen: moments happen when it comes to them."""

from types import SimpleNamespace

import pytest
import torch

from manyheads.team import ALONE
from manyheads.training.meter import Meter
from manyheads.training.state import Progress


class Slow:
    """A GPU that has done `done` of what it was told; each moment comes a second after the one before."""

    def __init__(self):
        self.told, self.done, self.waited = 0, 0, 0

    def now(self):
        self.told += 1
        return self.told

    def reached(self, moment):
        return moment <= self.done

    def wait(self, moment):
        self.waited += moment > self.done
        self.done = max(self.done, moment)

    def between(self, start, end):
        self.wait(end)
        return float(end - start)


def meter_with(clock):
    meter = Meter(Progress(), torch.device("cpu"), ALONE)
    meter.clock = clock
    return meter


def steps(meter, losses, step, tokens=100, skipped=0.0):
    meter.resume()
    for loss in losses:
        meter.add(SimpleNamespace(tokens=tokens), torch.tensor(loss), torch.tensor(2.0), torch.tensor(skipped))
    meter.send(step, 0.5)


def test_nothing_is_waited_for_but_what_is_a_window_old():
    meter = meter_with(clock := Slow())
    steps(meter, [1.0, 3.0], 2)
    assert list(meter.readings(all_of_them=False)) == []
    assert clock.waited == 0
    steps(meter, [5.0], 3)
    (reading,) = meter.readings(all_of_them=False)
    assert (reading.step, reading.loss, reading.norm, reading.rate, reading.tokens) == (2, 2.0, 2.0, 0.5, 200)
    assert clock.waited == 1
    (reading,) = meter.readings(all_of_them=True)
    assert (reading.step, reading.loss, reading.tokens) == (3, 5.0, 300)


def test_what_has_arrived_is_read_at_once():
    meter = meter_with(clock := Slow())
    steps(meter, [1.0], 1)
    clock.done = 99
    assert [reading.step for reading in meter.readings(all_of_them=False)] == [1]


def test_time_is_counted_once_and_pauses_are_not_training():
    meter = meter_with(clock := Slow())
    steps(meter, [1.0], 1)  # began at 1, sent at 2
    meter.pause()  # at 3
    clock.told = 100
    steps(meter, [1.0, 1.0], 3)  # from 101 to 102
    readings = list(meter.readings(all_of_them=True))
    assert meter.progress.seconds == pytest.approx(3.0)
    assert readings[0].speed == pytest.approx(100 / 1)
    assert readings[1].speed == pytest.approx(200 / 2)  # the second before the pause belongs to what followed it


def test_skips_in_a_row_are_counted_over_windows():
    meter = meter_with(Slow())
    for step in range(3):
        steps(meter, [1.0] * 4, step, skipped=1.0)
        list(meter.readings(all_of_them=True))
    assert meter.progress.skipped == 12
    steps(meter, [1.0] * 4, 3)
    list(meter.readings(all_of_them=True))
    assert meter.progress.skipped == 0


def test_steps_that_changed_nothing_are_told_apart():
    """With what they were to learn from; how the others went is not spoilt by them."""
    meter = meter_with(Slow())
    batches = [SimpleNamespace(tokens=10) for _ in range(4)]
    meter.resume()
    for batch, loss, skipped in zip(batches, (1.0, float("nan"), 3.0, float("inf")), (0.0, 1.0, 0.0, 1.0), strict=True):
        meter.add(batch, torch.tensor(loss), torch.tensor(loss), torch.tensor(skipped))
    meter.send(7, 0.5)
    (reading,) = meter.readings(all_of_them=True)
    assert reading.skipped == [(5, batches[1]), (7, batches[3])]
    assert (reading.loss, reading.norm) == (2.0, 2.0)


def test_nothing_added_is_nothing_sent():
    meter = meter_with(Slow())
    meter.send(1, 0.1)
    assert list(meter.readings(all_of_them=True)) == []
