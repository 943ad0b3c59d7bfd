"""Every way to learn, through the loop: the loss falls, and a run that goes on is the same run, bit for bit."""

import json

import pytest

import manyheads
from training.corpus import TINY, write_pairs

WAYS = {
    "simcut": {"train.simcut": 3.0, "train.cut": 0.1},
    "rdrop": {"train.rdrop": 5.0},
    "muon": {"train.optimizer": "muon", "train.weight_decay": 0.1},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return write_pairs(folder / "train.tsv", 300), write_pairs(folder / "dev.tsv", 20, seed=1)


def train(data, out, steps, way, **options):
    how = {"train.validate_every": 20, "train.schedule": "inverse-sqrt", "train.warmup": 1, "train.rate": 3e-3}
    changes = {**TINY, **how, **WAYS[way], "train.steps": steps}
    return manyheads.train(
        "tiny", train=[data[0]], dev=[data[1]], out=out, changes=changes, device="cpu", quiet=True, **options
    )


@pytest.mark.parametrize("way", WAYS)
def test_it_learns_and_goes_on_as_if_it_had_never_stopped(tmp_path, data, way):
    whole = train(data, tmp_path / "whole", 40, way)
    train(data, tmp_path / "halves", 20, way)
    halves = train(data, tmp_path / "halves", 40, way, resume=True)
    first, second = ((run.folder / "model.safetensors").read_bytes() for run in (whole, halves))
    assert first == second
    events = [json.loads(line) for line in (whole.folder / "log.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "validation"]
    assert len(losses) == 2
    assert losses[1] < losses[0] - 0.05
