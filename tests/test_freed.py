"""Memory that is freed is kept where malloc can be told so; what is set by hand stays."""

import ctypes
import os
import subprocess
import sys
from importlib import import_module

import pytest

from manyheads.freed import keep_freed_memory

PAGES = """
import resource, sys
import numpy as np
from manyheads.freed import keep_freed_memory
kept = keep_freed_memory({}) if sys.argv[1] == "keep" else False
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    np.empty(64 << 20, dtype=np.uint8).fill(1)
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

glibc = pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")


@glibc
def test_large_arrays_are_given_the_pages_of_freed_ones():
    (_, anew), (kept, again) = fresh_pages("as it is"), fresh_pages("keep")
    assert kept
    assert anew > 4 * again


def fresh_pages(how):
    """(whether memory is kept, pages that the system has made for twenty arrays of 64 MB, one after the other)"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PAGES, how], env=environment, capture_output=True, text=True, check=True
    )
    return map(int, done.stdout.split())


@pytest.mark.parametrize(
    "given",
    [
        {"MALLOC_MMAP_MAX_": "7"},
        {"MALLOC_MMAP_THRESHOLD_": "1000000"},
        {"MALLOC_TRIM_THRESHOLD_": "1000000"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1000000"},
    ],
)
def test_what_is_set_by_hand_stays(given, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", None)  # is not even asked for
    assert keep_freed_memory(given) is False


class Other:
    """A C library without mallopt."""


def without_a_library(name):
    raise OSError("no such file")


@pytest.mark.parametrize("library", [lambda name: Other(), without_a_library])
def test_other_libraries_are_left_alone(library, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", library)
    assert keep_freed_memory({}) is False


def test_trainings_of_the_command_keep_it(monkeypatch):
    for verb, options in (("train", {"train": ["x"], "out": "y"}), ("demo", {})):
        module = import_module(f"manyheads.cli.{verb}")
        monkeypatch.setattr(module, "keep_freed_memory", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            getattr(module, verb)(**options)
