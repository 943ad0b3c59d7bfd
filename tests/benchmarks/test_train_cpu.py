"""A training step against a peer's: both are judged by the same loss, and every line of the benchmark runs."""

import argparse
from pathlib import Path

import pytest
import torch

from benchmarks import train_cpu
from manyheads.recipe import load_recipe
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.pairs import PairBatch


@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_the_peers_loss_is_ours(alpha):
    torch.manual_seed(0)
    labels = torch.randint(3, 50, (4, 6))
    logits = torch.randn(8 if alpha else 4, 6, 50, dtype=torch.float64)
    ours = choose_loss(load_recipe("small", {"train.rdrop": alpha}).train)
    wanted = ours.judged(logits, PairBatch(labels, labels, labels, count=24))
    theirs = train_cpu.rdrop(logits, labels, 0.1, alpha) if alpha else train_cpu.cross_entropy(logits, labels, 0.1)
    torch.testing.assert_close(theirs.double(), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is asked of Linux")
def test_a_row_has_both_times_and_both_memories():
    options = argparse.Namespace(tokens=2 * train_cpu.LENGTH, rounds=1, quick=True)
    row = train_cpu.measure("tiny", 5.0, "fp32", options)
    assert (row["recipe"], row["loss"], row["precision"]) == ("tiny", "R-Drop", "fp32")
    assert all(row[key] > 0 for key in ("ours_ms", "theirs_ms", "ratio"))
    assert {"ours_mb", "theirs_mb"} <= row.keys()
