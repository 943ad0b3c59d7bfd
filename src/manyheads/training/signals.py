"""Ctrl-C and SIGTERM: the step is finished, the run saved, then it stops. A second one stops at once, unless it comes so soon that it was meant as one."""

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
"""Seconds within which somebody who presses twice means once."""


class StopRequest:
    """`number` is that of the signal, once there was one."""

    number: int | None = None


@contextmanager
def listen() -> Iterator[StopRequest]:
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only the main thread hears signals
        yield request
        return

    heard: list[float] = []

    def hear(number: int, frame: FrameType | None) -> None:
        request.number = number
        heard.append(time.monotonic())
        # torchrun passes on what it hears, so that it may come twice, and kills who is slow.
        if TORCHRUN not in os.environ and heard[-1] - heard[0] > ONE_PRESS:
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        for name, handler in before.items():
            signal.signal(name, signal.SIG_DFL if handler is None else handler)  # None: it was not Python's

    before = {name: signal.signal(name, hear) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        restore()
