"""Runs commands of `manyheads` that depend on each other, several at a time, until time is up.

    jobs = [Job("teacher", ["train", …]), Job("student", ["train", …], needs=("teacher",))]
    became = work(jobs, logs=Path("runs/logs"), seconds=500)

Jobs that are still running then are told to save and stop. Trainings have `--resume` in their command, so that the same
call resumes them.
"""

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Job", "work"]

GRACE = 60.0
"""Seconds that a job has for saving when it is told to stop."""
WAIT = 0.2


@dataclass(frozen=True)
class Job:
    """A command.

    words    the words of the command after `manyheads`
    needs    names of jobs that must be done before
    ready    called when the command has ended without an error
    """

    name: str
    words: Sequence[str]
    needs: tuple[str, ...] = ()
    ready: Callable[[], object] = lambda: None

    @property
    def command(self) -> str:
        """The command as one would type it."""
        return shlex.join(["manyheads", *self.words])


def work(
    jobs: Sequence[Job], logs: Path, *, seconds: float = float("inf"), most: int = 8, done: Collection[str] = ()
) -> dict[str, str]:
    """Run jobs in the given order; return by name "done", "failed", "stopped", or "left" if it was never started.

    A job that fails stops only those that need it.

    seconds   until all are told to stop
    most      jobs that run at the same time
    done      names of jobs that need not be run again
    """
    became = {job.name: "done" if job.name in done else "left" for job in jobs}
    running: dict[str, subprocess.Popen[bytes]] = {}
    began = time.monotonic()
    logs.mkdir(parents=True, exist_ok=True)
    while time.monotonic() - began < seconds:
        for job in jobs:
            if job.name in running and (status := running[job.name].poll()) is not None:
                del running[job.name]
                became[job.name] = ended(job, status, logs)
        for job in jobs:
            free = became[job.name] == "left" and len(running) < most
            if free and all(became[name] == "done" for name in job.needs):
                running[job.name] = start(job, logs)
                became[job.name] = "running"
        if not running:
            break
        time.sleep(WAIT)
    stop(running)
    return became | dict.fromkeys(running, "stopped")


def start(job: Job, logs: Path) -> subprocess.Popen[bytes]:
    print(f"{job.name}: {job.command}", flush=True)
    with place_of(job, logs).open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "manyheads", *job.words], stdout=log, stderr=log)


def ended(job: Job, status: int, logs: Path) -> str:
    print(f"{job.name}: ended with {status}", *last_lines(place_of(job, logs)), sep="\n    ", flush=True)
    if status == 0:
        job.ready()
    return "failed" if status else "done"


def stop(running: dict[str, subprocess.Popen[bytes]]) -> None:
    for process in running.values():
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    for name, process in running.items():
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
        print(f"{name}: stopped", flush=True)


def place_of(job: Job, logs: Path) -> Path:
    return logs / f"{job.name.replace(',', '').replace(' ', '-').replace('/', '-')}.log"


def last_lines(log: Path, count: int = 2) -> list[str]:
    return [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()][-count:]
