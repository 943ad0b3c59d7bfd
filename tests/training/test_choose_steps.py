"""What happens when an update cannot be recorded. No GPU is needed to fail."""

import json

import pytest
import torch

import manyheads
from manyheads.tasks.translate import Task
from manyheads.training import beginning, loop
from manyheads.training.steps import check_gradients
from training.corpus import TINY, write_pairs


@pytest.fixture
def train(tmp_path, monkeypatch):
    """A run that believes to be on a GPU until it records."""
    data = write_pairs(tmp_path / "train.tsv", 200), write_pairs(tmp_path / "dev.tsv", 20, seed=1)

    def train(graphed, **options):
        monkeypatch.setattr(loop, "GraphedSteps", graphed)
        changes = {**TINY, "train.steps": 6, "train.validate_every": 3, "train.fast": "on", **options}
        with monkeypatch.context() as patch:
            patch.setattr(loop, "can_graph", lambda machine, team: True)
            patch.setattr(beginning, "can_graph", lambda machine, team: True)
            return manyheads.train(
                "tiny", train=data[0], dev=data[1], out=tmp_path / "run", changes=changes, device="cpu"
            )

    return train


def raises(error):
    def graphed(*_):
        raise error

    return graphed


def test_without_a_compiler_training_goes_on_padded(train, tmp_path, capsys):
    done = train(raises(RuntimeError("Failed to find C compiler.\nPlease specify via CC")))
    said = capsys.readouterr().err
    assert "could not compile, continuing without: RuntimeError: Failed to find C compiler." in said
    assert done.steps == 6
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    assert json.loads((newest / "state.json").read_text())["packed"] == 0


def test_without_memory_to_record_training_goes_on_and_splits_batches(train, tmp_path, monkeypatch, capsys):
    """What is recorded has one shape; what is not can be computed in parts."""
    whole = Task.loss

    def loss(self, model, batch):
        if len(batch.source) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, model, batch)

    monkeypatch.setattr(Task, "loss", loss)
    monkeypatch.setattr(Task, "fused_loss", lambda self: self.loss)
    assert train(raises(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."))).steps == 6
    said = capsys.readouterr().err
    assert (
        "could not compile, continuing without: OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB." in said
    )
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["split"] > 0


def test_what_is_recorded_gets_packs(train, tmp_path):
    seen = []

    class Recorded:
        compile_seconds = 1.5

        def __init__(self, state, config, machine, loss, example):
            seen.append(example)

        def __call__(self, batch, step, rate):
            seen.append(batch)
            return torch.ones(()), torch.ones(()), torch.zeros(())

    train(Recorded)
    shapes = {tuple(tuple(t.shape) for t in part.tensors()) for batch in seen for part in batch.parts}
    assert len(seen) == 7
    assert len(shapes) == 1
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["compile_seconds"] == 1.5


def test_a_recorded_step_that_is_not_finite_is_written_down_with_its_lines(train, tmp_path):
    seen = {}

    class Recorded:
        compile_seconds = 0.0

        def __init__(self, *_): ...

        def __call__(self, batch, step, rate):
            seen[step] = batch
            return torch.ones(()), torch.ones(()), torch.tensor(float(step == 2))

    train(Recorded)
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    (event,) = [e for e in map(json.loads, lines) if e["event"] == "not_finite"]
    expected = sorted(int(pair) + 1 for pair in seen[2].pairs)
    assert (event["step"], event["module"]) == (2, None)  # computed again as it is, it is finite
    assert event["lines"] == {str(tmp_path / "train.tsv"): expected}


def test_a_gradient_that_is_lost_is_noticed():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    model(torch.ones(4, 2)).sum().backward()
    check_gradients(model)
    model[0].weight.grad.zero_()
    with pytest.raises(RuntimeError, match=r"no gradient for 1 of its parameters, 0\.weight"):
        check_gradients(model)
    model[0].weight.requires_grad_(False)
    check_gradients(model)
