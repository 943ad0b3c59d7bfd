"""Ctrl-C and SIGTERM: the step is finished, the run is saved, and training stops.

A second signal stops it at once, unless it follows so soon that both were meant as one.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["StopRequest", "listen"]

TORCHRUN = "TORCHELASTIC_RUN_ID"
ONE_PRESS = 1.0
"""Seconds within which two key presses count as one."""


class StopRequest:
    """`number`: the signal's, once one has arrived."""

    number: int | None = None


@contextmanager
def listen() -> Iterator[StopRequest]:
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield request
        return

    heard: list[float] = []

    def hear(number: int, frame: FrameType | None) -> None:
        request.number = number
        heard.append(time.monotonic())
        # torchrun forwards signals, so one may arrive twice, and it kills processes that are slow to end.
        if TORCHRUN not in os.environ and heard[-1] - heard[0] > ONE_PRESS:
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        for name, handler in before.items():
            signal.signal(name, signal.SIG_DFL if handler is None else handler)  # None: not set from Python

    before = {name: signal.signal(name, hear) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        restore()
