"""Processes that cut sentences: the same cuts for any number of them; their failures are heard; none is left behind."""

import gzip
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from manyheads.errors import TrainingError
from manyheads.modelfolder import bundled
from manyheads.text.cutters import Cutters, employed
from manyheads.text.dropout import MergeDropout, Recut
from manyheads.text.shards import Sequences, sequence_writer
from manyheads.text.vocabulary import train_tokenizer
from noise import make_noisy, patience

with gzip.open(bundled("tatoeba/dev.tsv.gz"), "rt", encoding="utf-8") as file:
    LINES = [line.split("\t")[0] for line in file]
PAIRS = train_tokenizer("bpe", LINES, 600)


@pytest.fixture
def recut(tmp_path):
    with sequence_writer(tmp_path / "train.source", PAIRS.size) as write:
        write(PAIRS.encode_packed(LINES))
    return Recut(Sequences(tmp_path / "train.source", PAIRS.size), MergeDropout(PAIRS, 0.3, 5, 1), 60)


@pytest.fixture
def hire(recut):
    hired = []

    def employ(processes):
        hired.append(Cutters(recut.stored, recut.dropout, processes))
        return hired[-1]

    yield employ
    for cutters in hired:
        cutters.dismiss()


def test_the_same_cuts_by_any_number(recut, hire):
    batches = [(np.random.default_rng(n).permutation(len(LINES))[: 10 + 700 * n], n) for n in range(3)]
    expected = [recut.rows(*batch) for batch in batches]
    for processes in (1, 3):
        recut.cut = hire(processes)
        for batch, rows in zip(batches, expected, strict=True):
            found = recut.rows(*batch)
            assert all(np.array_equal(a, b) for a, b in zip(found, rows, strict=True))


def test_they_are_employed_for_a_while(recut, monkeypatch):
    """Only where something is cut anew, and only if there are cores."""
    rows = np.arange(300)
    expected = recut.rows(rows, 2)
    for cores, processes in ((8, 4), (2, 0)):
        monkeypatch.setattr("manyheads.text.cutters.cores", lambda cores=cores: cores)
        with employed((recut, recut.stored)):
            hired = recut.cut.processes if isinstance(recut.cut, Cutters) else []
            assert len(hired) == processes
            assert np.array_equal(recut.rows(rows, 2).ids, expected.ids)
        assert recut.cut == recut.cut_here
        assert all(process.returncode is not None for process in hired)


def test_a_process_that_dies_is_heard_of(recut, hire):
    recut.cut = cutters = hire(2)
    recut.rows(np.arange(500), 0)
    cutters.processes[1].kill()
    cutters.processes[1].wait()
    with pytest.raises(TrainingError, match="a process that cut sentences into pieces ended with -9"):
        recut.rows(np.arange(500), 1)


def test_what_went_wrong_is_said(recut, hire):
    recut.cut = hire(1)
    with pytest.raises(TrainingError, match="ended with 1: IndexError"):
        recut.cut(np.array([10**9]), 0)()


def test_one_that_says_much_is_not_stopped_by_it(recut, hire, tmp_path, monkeypatch):
    rows = np.arange(200)
    expected = recut.rows(rows, 1).ids
    make_noisy(tmp_path, monkeypatch)
    recut.cut = hire(2)
    with patience(60):
        assert np.array_equal(recut.rows(rows, 1).ids, expected)
    with pytest.raises(TrainingError, match="ended with 1: IndexError"), patience(60):
        recut.cut(np.array([10**9]), 0)()


def test_none_is_left_when_the_parent_is_killed(recut, tmp_path):
    """A parent that hires two, says their numbers, and is killed."""
    (tmp_path / "tokenizer.json").write_text(
        "\n".join(f"{left} {right}" for left, right in PAIRS.merges), encoding="utf-8"
    )
    program = f"""
import sys, time
from pathlib import Path
import numpy as np
from manyheads.text.cutters import Cutters
from manyheads.text.dropout import MergeDropout
from manyheads.text.shards import Sequences
from manyheads.text.bytepairs import BytePairs
merges = Path({str(tmp_path / "tokenizer.json")!r}).read_text(encoding="utf-8").split("\\n")
tokenizer = BytePairs(tuple(merge.split(" ")) for merge in merges)
stored = Sequences(Path({str(recut.stored.path)!r}), tokenizer.size)
cutters = Cutters(stored, MergeDropout(tokenizer, 0.1, 1), 2)
cutters(np.arange(300), 0)
assert "torch" not in sys.modules
print(*(process.pid for process in cutters.processes), flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    numbers = [int(number) for number in parent.stdout.readline().split()]
    assert len(numbers) == 2
    for number in numbers:
        os.kill(number, 0)  # it is there
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + 20
    while any(map(runs, numbers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(runs, numbers))


def runs(number):
    """Not gone, and not a zombie that nobody waits for."""
    try:
        with open(f"/proc/{number}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
