"""Decoding on a CPU is compared with the same output, and the products of F.linear are in one of the rows."""

from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch
from benchmarks.decode_cpu import HELD, OURS, PLAIN, SHAPE, THEIRS, all_works, line, measure, ours, plain
from benchmarks.marian import as_marian, generate

from benchmarks import decode_cpu
from manyheads import Transformer
from manyheads.nn import linear
from manyheads.nn.eightbits import is_exact


@pytest.fixture(autouse=True)
def without_a_rest(monkeypatch):
    monkeypatch.setattr(decode_cpu, "REST", 0)


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


def test_in_eight_bits_and_by_ctranslate2(tmp_path):
    if not is_exact():
        pytest.skip("this processor adds up 8-bit products inexactly")
    torch.manual_seed(1)
    model = Transformer(replace(SHAPE, width=32, layers=1, heads=2, feedforward=64), 50).eval()
    with ExitStack() as stack:
        works = all_works(model, tmp_path)(3, stack)
        assert {OURS, PLAIN, HELD, THEIRS} <= set(works)
        row = measure(works, torch.randint(3, 50, (3, 6)), 6, rounds=1)
    assert row["same"][OURS] == row["same"][THEIRS] == 1
    assert set(row["tokens_s"]) == set(works)
    assert "CTranslate2" not in works or row["same"]["CTranslate2"] == 1


def test_the_plain_row_is_without_onednn(monkeypatch):
    monkeypatch.setattr(linear, "ONEDNN", True)
    assert plain(lambda source, limit: linear.ONEDNN)(None, 1) is False
    assert linear.ONEDNN is True
