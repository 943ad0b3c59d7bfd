"""Ctrl-C and SIGTERM: the step is finished, the run saved, then it stops. A second one stops at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["StopRequest", "listen"]

TORCHRUN = "TORCHELASTIC_RUN_ID"


class StopRequest:
    """`number` is that of the signal, once there was one."""

    number: int | None = None


@contextmanager
def listen() -> Iterator[StopRequest]:
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only the main thread hears signals
        yield request
        return

    def hear(number: int, frame: FrameType | None) -> None:
        request.number = number
        if (
            TORCHRUN not in os.environ
        ):  # which passes on what it hears, so that it may come twice, and kills who is slow
            restore()

    def restore() -> None:
        for name, handler in before.items():
            signal.signal(name, signal.SIG_DFL if handler is None else handler)  # None: it was not Python's

    before = {name: signal.signal(name, hear) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        restore()
