"""What a user sees of a run, on stderr: a bar with speed, loss and time left on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import IO, Self, TextIO, cast

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from manyheads.tasks.task import Validation
from manyheads.text.corpus import CONTROL

__all__ = ["Show"]

ORDER = ("loss", "perplexity", "bleu", "chrf", "exact", "wer", "per")


class Unbreakable:
    """A stream that cannot end training: when its reader is gone or its disk is full, output is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.encoding = stream, getattr(stream, "encoding", "utf-8")

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()


class Show:
    """Messages and a bar on stderr."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(file=cast(IO[str], Unbreakable(sys.stderr)), quiet=quiet, highlight=False, emoji=False)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]} · {task.fields[speed]} tokens/s"),
            TimeElapsedColumn(),
            TextColumn("·"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self.console,
            disable=not self.console.is_terminal or quiet,
        )

    def say(self, text: str) -> None:
        self.console.print(escape(text), soft_wrap=True)

    def start(self, steps: int, done: int) -> None:
        self.task = self.bar.add_task("training", total=steps, completed=done, loss="–", speed="–")
        self.bar.start()

    def doing(self, what: str) -> None:
        if self.bar.tasks:
            self.bar.update(self.task, description=what)

    def step(self, step: int) -> None:
        self.bar.update(self.task, completed=step)

    def figures(self, loss: float, speed: float) -> None:
        self.bar.update(self.task, loss=f"{loss:.3f}", speed=f"{speed:,.0f}")

    def validated(self, step: int, loss: float, speed: float, validation: Validation, best: bool) -> None:
        training = f"step {step:,}  train loss {loss:.3f}  {speed:,.0f} tokens/s"
        self.say(f"{training}  │ dev {metrics_line(validation.metrics)}{'  best' if best else ''}")

    def samples(self, validation: Validation) -> None:
        """Print the first one, on one line: it is nice to watch it improve."""
        for sample in validation.samples[:1]:
            self.say(f"    {shortened(sample.source)} → {shortened(sample.output)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()


def metrics_line(metrics: Mapping[str, float]) -> str:
    names = [name for name in ORDER if name in metrics] + [name for name in metrics if name not in ORDER]
    return "  ".join(f"{name} {metrics[name]:.{3 if name == 'loss' else 2}f}" for name in names)


def shortened(text: str, most: int = 60) -> str:
    """The text cut to a line, with nothing in it that a terminal would obey."""
    text = CONTROL.sub("�", text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
