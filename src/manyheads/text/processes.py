"""Processes that share a work: each is started as a command of its own. It inherits nothing, and imports no more than it needs."""

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
"""Bytes of what a process said that are looked at: its last line is in there."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Process(subprocess.Popen[bytes]):
    """We talk with it through its standard input and output.

    What it says on standard error goes to a file without a name: a pipe would be full one day, and who writes to it would wait forever.
    """

    def __init__(self, command: list[str], **options: Any) -> None:
        self.said = TemporaryFile()  # noqa: SIM115
        super().__init__(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, **options)

    def failure(self) -> TrainingError:
        self.kill()  # nothing, if it has ended
        self.wait()
        return TrainingError(
            f"a process that cut sentences into pieces ended with {self.returncode}: {self.last_words()}"
        )

    def last_words(self) -> str:
        """The last line that it said."""
        file = self.said.fileno()
        tail = os.pread(file, TAIL, max(0, os.fstat(file).st_size - TAIL))
        return tail.decode(errors="replace").strip().rpartition("\n")[2]

    def dismiss(self) -> None:
        """Afterwards it has ended, whatever it was at."""
        self.kill()
        self.communicate()
        self.said.close()


def start_process(module: str, *arguments: str, **options: Any) -> Process:
    """-P: nothing is imported from the folder that we happen to be in. Its input ends when we do, however that is."""
    found = os.pathsep.join(filter(None, (str(Path(manyheads.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    one_core = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "PYTHONPATH": found}
    return Process([sys.executable, "-P", "-m", module, *arguments], env=one_core, **options)
