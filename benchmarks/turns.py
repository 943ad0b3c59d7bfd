"""Several processes on one machine that get ready at the same time and are measured one after the other.

Compiling a model takes minutes of a CPU and nothing of the GPU, so all compile together; a measurement needs the GPU
for itself, so only one process at a time is told to measure. The two sides exchange lines:

    child   {"event": "ready", …}            when it has warmed up
    parent  measure 12500                    words of the parent's own choice
    child   {"event": "measured", …}
    parent  (closes the pipe)                the end

Whatever else a child prints goes to its log. A child that fails, or takes too long, has a `fault`; the others continue.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

__all__ = ["Child", "serve", "warm_up"]

Answer = dict[str, Any]


class Child:
    """A process, from the parent's side. `fault` says why it is out of the measurement, if it is."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        pipe = subprocess.PIPE
        with log.open("wb") as errors:
            # A group of its own: compilers start processes, which must end with it.
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=errors, text=True, process_group=0,
                env={**os.environ, **(environment or {})},
            )  # fmt: skip
        self.fault: str | None = None
        self.answers: queue.Queue[Answer | None] = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(json.loads(line))
        self.answers.put(None)

    def answer(self, limit: float, doing: str) -> Answer | None:
        """The child's next answer; None if it ends or does not answer in time, and then it is out."""
        if self.fault:
            return None
        try:
            answer = self.answers.get(timeout=max(0.0, limit))
        except queue.Empty:
            return self.give_up(f"{doing}: no answer within its time")
        if answer is None:
            return self.give_up(f"{doing}: it ended with {self.process.wait()}: {last_line(self.log)}")
        return self.give_up(f"{doing}: {answer['fault']}") if "fault" in answer else answer

    def ask(self, words: str, limit: float) -> Answer | None:
        if self.fault:
            return None
        assert self.process.stdin is not None
        with suppress(OSError):  # the child has ended: `answer` says why
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        return self.answer(limit, words)

    def give_up(self, fault: str) -> None:
        self.fault = fault
        self.end()

    def end(self) -> None:
        """Kill the child and all that it started. A group outlives its first process, so it is killed in any case."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def warm_up(children: Sequence[Child], limit: float) -> list[Answer | None]:
    """Wait until each child is ready or out. The limit, in seconds from now, holds for all of them together."""
    until = time.monotonic() + limit
    return [child.answer(until - time.monotonic(), "warm-up") for child in children]


def last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it said nothing"


# ── the child's side ────────────────────────────────────────────────────────────────────────────────────────────────


def serve(prepare: Callable[[], tuple[Answer, Callable[[str], Answer]]]) -> None:
    """Get ready, report that, and answer each line. A failure is an answer, too."""
    out = keep_stdout()
    lines = listen_to_parent()
    try:
        ready, measure = prepare()
        say(out, {"event": "ready", **ready})
        for line in lines:
            say(out, {"event": "measured", **measure(line)})
    except Exception as error:
        say(out, {"fault": f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0][:300]}"})
        raise


def keep_stdout() -> TextIO:
    """Standard output, for the answers alone: whatever libraries print goes to standard error instead."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def say(out: TextIO, answer: Answer) -> None:
    out.write(json.dumps(answer) + "\n")
    out.flush()


def listen_to_parent() -> Iterator[str]:
    """The parent's lines. When it closes the pipe, or dies, this process ends, whatever it is doing."""
    heard: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            heard.put(line.strip())
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield heard.get()
