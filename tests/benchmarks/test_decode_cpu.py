"""Decoding on a CPU is compared with the same output, and the products of F.linear are in one of the rows."""

from dataclasses import replace

import pytest
import torch
from benchmarks.decode_cpu import OURS, PLAIN, SHAPE, THEIRS, line, measure, ours, plain
from benchmarks.marian import as_marian, generate

from manyheads import Transformer
from manyheads.nn import linear


@pytest.mark.parametrize("beam", [1, 3])
def test_all_write_the_same(beam, monkeypatch):
    monkeypatch.setattr(linear, "ONEDNN", hasattr(torch.ops.mkldnn, "_linear_pointwise"))
    monkeypatch.setattr(linear, "FEWEST", 1)
    monkeypatch.setattr(linear, "FEWEST_OF_FEW", 1)
    torch.manual_seed(1)
    model = Transformer(replace(SHAPE, width=32, layers=1, heads=2, feedforward=64), 50).eval()
    marian = as_marian(model)
    works = {
        OURS: ours(model, beam),
        PLAIN: plain(ours(model, beam)),
        THEIRS: lambda source, limit: generate(marian, source, limit, beam),
    }
    row = measure(works, torch.randint(3, 50, (3, 6)), 6, rounds=2)
    assert row["identical"] == 1
    assert "same 100%" in line({"batch": 3, "beam": beam, **row})


def test_the_plain_row_is_without_onednn(monkeypatch):
    monkeypatch.setattr(linear, "ONEDNN", True)
    assert plain(lambda source, limit: linear.ONEDNN)(None, 1) is False
    assert linear.ONEDNN is True
