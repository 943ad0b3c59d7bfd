"""Batches made ahead by a thread, so that the device never waits for them."""

from collections.abc import Callable, Generator
from contextlib import suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any, TypeVar

__all__ = ["prefetch"]

Item = TypeVar("Item")
END: Any = object()


def prefetch(make: Callable[[int], Item], first: int, last: int, ahead: int = 8) -> Generator[Item, None, None]:
    """make(first), …, make(last − 1), in order, with up to `ahead` of them made before they are requested."""
    queue: Queue[Any] = Queue(ahead)
    left = Event()

    def work() -> None:
        try:
            for step in range(first, last):
                if left.is_set():
                    return
                queue.put(make(step))
            queue.put(END)
        except BaseException as error:  # raised where the batch is requested
            queue.put(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        while (item := queue.get()) is not END:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        left.set()
        while thread.is_alive():  # what it is making may need what the caller releases next
            with suppress(Empty):
                queue.get(timeout=0.05)
