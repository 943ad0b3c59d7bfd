"""Worker processes, each started as a command of its own: it inherits nothing, and imports no more than it needs."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import manyheads
from manyheads.errors import TrainingError

__all__ = ["Process", "cores", "start_process"]

TAIL = 4_096
"""Bytes at the end of a process's error output in which its last line is looked for."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Process(subprocess.Popen[bytes]):
    """A worker process, used through its standard input and output.

    Its standard error goes to an unnamed file: a pipe would eventually be full, and the process would wait forever.
    """

    def __init__(self, command: list[str], **options: Any) -> None:
        self.said = TemporaryFile()  # noqa: SIM115
        super().__init__(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, **options)

    def failure(self) -> TrainingError:
        self.kill()  # does nothing if it has ended
        self.wait()
        return TrainingError(
            f"a process that cut sentences into pieces ended with {self.returncode}: {self.last_words()}"
        )

    def last_words(self) -> str:
        """The last line of its standard error."""
        file = self.said.fileno()
        tail = os.pread(file, TAIL, max(0, os.fstat(file).st_size - TAIL))
        return tail.decode(errors="replace").strip().rpartition("\n")[2]

    def dismiss(self) -> None:
        """End the process, whatever it is doing."""
        self.kill()
        self.communicate()
        self.said.close()


def start_process(module: str, *arguments: str, **options: Any) -> Process:
    """Start a module as a process. Its input ends when this process does, however that happens.

    -P keeps it from importing anything from the current folder.
    """
    found = os.pathsep.join(filter(None, (str(Path(manyheads.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    one_core = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "PYTHONPATH": found}
    return Process([sys.executable, "-P", "-m", module, *arguments], env=one_core, **options)
