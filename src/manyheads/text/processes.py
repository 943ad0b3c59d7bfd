"""Processes that share a work: each is started as a command of its own. It inherits nothing, and imports no more than it needs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import manyheads

__all__ = ["cores", "last_words", "start_process"]


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_process(module: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """-P: nothing is imported from the folder that we happen to be in. Its input ends when we do, however that is."""
    found = os.pathsep.join(filter(None, (str(Path(manyheads.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    one_core = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "PYTHONPATH": found}
    command, pipe = [sys.executable, "-P", "-m", module, *arguments], subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=one_core, **options)


def last_words(said: bytes) -> str:
    """The last line of what a process wrote before it died."""
    return said.decode(errors="replace").strip().rpartition("\n")[2]
