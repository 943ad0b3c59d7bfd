"""Loss, gradient norm and speed of the last few steps, without waiting for them.

On a GPU the numbers of a few steps travel to the host while the next steps are computed. They are read once they have
arrived, or at the latest when the numbers of the next few are sent, so the host runs ahead of the GPU, but never far.
Time is measured by the GPU's own events.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.tasks.task import Batch
from manyheads.team import Team
from manyheads.training.state import Progress

__all__ = ["Meter", "Reading"]


@dataclass(frozen=True)
class Reading:
    """What a few consecutive steps were like.

    step, tokens, seconds   of the whole run, at the end of these steps
    speed                   tokens per second; for pairs, target tokens
    skipped                 (step, batch) of the updates skipped because the gradient was not finite
    """

    step: int
    rate: float
    loss: float
    norm: float
    speed: float
    tokens: int
    seconds: float
    skipped: list[tuple[int, Batch]]


@dataclass
class Window:
    """A few consecutive steps whose numbers are not yet known on the host.

    numbers   for each step its loss, its gradient's norm, and 1 if it was skipped
    batches   one per step, kept until it is known that nothing is wrong with it
    spent     seconds counted so far
    laps      (start, end) of the time still to be counted
    """

    numbers: list[Float[Tensor, "3"]] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    spent: float = 0.0
    laps: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(batch.tokens for batch in self.batches)


@dataclass(frozen=True)
class Sent:
    """A window whose numbers are on their way to the host. `total`: tokens of the run at its end."""

    window: Window
    step: int
    rate: float
    total: int
    numbers: Float[Tensor, "steps 3"]
    arrived: Any


class Clock(Protocol):
    def now(self) -> Any: ...

    def reached(self, moment: Any) -> bool: ...

    def wait(self, moment: Any) -> None: ...

    def between(self, start: Any, end: Any) -> float: ...


class HostClock:
    """For a CPU: work is done when the call returns."""

    def now(self) -> float:
        return time.monotonic()

    def reached(self, moment: float) -> bool:
        return True

    def wait(self, moment: float) -> None: ...

    def between(self, start: float, end: float) -> float:
        return end - start


class DeviceClock:
    """For a GPU: moments are events, which happen when the GPU gets to them."""

    def now(self) -> torch.cuda.Event:
        moment = torch.cuda.Event(enable_timing=True)
        moment.record()
        return moment

    def reached(self, moment: torch.cuda.Event) -> bool:
        return moment.query()

    def wait(self, moment: torch.cuda.Event) -> None:
        moment.synchronize()

    def between(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        end.synchronize()
        return start.elapsed_time(end) / 1000


class Meter:
    """Collects the numbers of steps, and counts the time spent in training.

    loss, speed   of the last reading
    """

    def __init__(self, progress: Progress, device: torch.device, team: Team) -> None:
        self.progress, self.device, self.team = progress, device, team
        self.clock: Clock = DeviceClock() if device.type == "cuda" else HostClock()
        self.loss, self.speed = float("nan"), 0.0
        self.window, self.sent, self.began = Window(), deque[Sent](), None

    def resume(self) -> None:
        """Start counting time: what follows is training."""
        if self.began is None:
            self.began = self.clock.now()

    def add(self, batch: Batch, loss: Tensor, norm: Tensor, skipped: Tensor) -> None:
        self.window.numbers.append(torch.stack([loss.float(), norm.float(), skipped.float()]))
        self.window.batches.append(batch)
        self.progress.tokens += batch.tokens

    def pause(self) -> None:
        """Stop counting time: wait for the device to get here. What follows is not training."""
        if self.began is None:
            return
        self.window.laps.append((self.began, self.clock.now()))
        self.began = None
        self.count(self.window)

    def send(self, step: int, rate: float) -> None:
        """Send the numbers of the steps so far on their way to the host, and start a new window."""
        if not self.window.numbers:
            return
        numbers = torch.stack(self.window.numbers)
        if self.device.type == "cuda":
            numbers = torch.empty(numbers.shape, pin_memory=True).copy_(numbers, non_blocking=True)
        here = self.clock.now()
        if self.began is not None:
            self.window.laps.append((self.began, here))
            self.began = here
        self.sent.append(Sent(self.window, step, rate, self.progress.tokens, numbers, here))
        self.window = Window()

    def readings(self, *, all_of_them: bool) -> Iterator[Reading]:
        """Readings that have arrived, waiting for all but the newest; or, with `all_of_them`, for every one.

        Processes that train together must read together, so they always wait for every one.
        """
        while self.sent and (
            all_of_them or self.team.size > 1 or len(self.sent) > 1 or self.clock.reached(self.sent[0].arrived)
        ):
            yield self.read(self.sent.popleft())

    def read(self, sent: Sent) -> Reading:
        self.clock.wait(sent.arrived)
        made = sent.numbers[:, 2] == 0  # a skipped step must not hide the numbers of the others
        loss, norm, _ = (sent.numbers[made] if made.any() else sent.numbers).mean(0).tolist()
        losses = self.team.gather(loss)
        self.loss = sum(losses) / len(losses)
        first, batches = sent.step - len(sent.numbers) + 1, sent.window.batches
        skipped = [(first + n, batches[n]) for n, number in enumerate(sent.numbers[:, 2].tolist()) if number]
        every = len(skipped) == len(sent.numbers)
        self.progress.skipped = self.progress.skipped + len(skipped) if every else len(skipped)
        self.count(sent.window)
        self.speed = sent.window.tokens / max(1e-9, sent.window.spent)
        return Reading(sent.step, sent.rate, self.loss, norm, self.speed, sent.total, self.progress.seconds, skipped)

    def count(self, window: Window) -> None:
        passed = sum(self.clock.between(*lap) for lap in window.laps)
        window.spent += passed
        window.laps.clear()
        self.progress.seconds += passed
