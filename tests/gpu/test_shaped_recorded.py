"""On a GPU: an update that is recorded for each shape of padded batches learns what the same updates learn as they are."""

import hashlib

import pytest
import torch

import manyheads
from manyheads.recipe import TrainConfig
from manyheads.recorded import Eager, Recorder
from manyheads.training.shaped import ShapedSteps
from training.corpus import TINY, write_pairs
from training.test_shaped import assert_every_weight_has_a_gradient, assert_like, batches, learn, steps_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.plain,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]


def recorder():
    return Recorder(torch.device("cuda"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_recorded_it_learns_what_it_learns_as_it_is(precision):
    config = TrainConfig(ema=0.9)
    played = [steps_of(config, "cuda", precision, make, dropout=0.1)[1] for make in (recorder(), Eager)]
    recorded, eager = (learn(steps, batches("cuda", 16)) for steps in played)
    assert all(place.player.graph is not None for place in played[0].places.values())
    torch.testing.assert_close(recorded, eager, rtol=1e-3, atol=1e-4)
    assert_like(*(steps.eager.state.model.state_dict() for steps in played), tolerance=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_weight_has_a_gradient(precision):
    assert_every_weight_has_a_gradient("cuda", precision)


def test_a_glance_that_falls_is_seen_by_what_was_recorded():
    """With nothing to be shown, the second look is the first: the loss is that of a run that has no glance."""
    one, other = (steps_of(TrainConfig(), "cuda", recorder=recorder())[1] for _ in range(2))
    shown, hidden = batches("cuda", 8), batches("cuda", 8)
    for batch in hidden:
        batch.glance.zero_()
    assert not torch.allclose(learn(one, shown)[-1], learn(other, hidden)[-1])
    other.eager.state.model.load_state_dict(one.eager.state.model.state_dict())
    with torch.no_grad():
        wanted = other.loss(other.eager.state.model, hidden[0]) / hidden[0].count
    assert learn(one, hidden[:1], first=8)[0, 0].item() == pytest.approx(wanted.item(), rel=1e-4)


def test_a_recorded_step_never_waits_for_the_gpu():
    _, steps = steps_of(TrainConfig(), "cuda", "bf16", recorder())
    some = batches("cuda", 2)
    learn(steps, some * 2)
    torch.cuda.set_sync_debug_mode("error")
    try:
        learn(steps, some)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_dropout_differs_from_step_to_step_and_not_from_run_to_run():
    first, again = (steps_of(TrainConfig(), "cuda", recorder=recorder(), dropout=0.3)[1] for _ in range(2))
    some = batches("cuda", 1) * 6
    losses = learn(first, some)[:, 0]
    assert len(losses.unique()) == 6
    torch.testing.assert_close(learn(again, some)[:, 0], losses)


def test_a_run_that_goes_on_is_the_same_run_bit_for_bit(tmp_path, monkeypatch):
    changes = {key: value for key, value in TINY.items() if not key.startswith("decode")} | {
        "train.steps": 30, "train.save_every": 10, "train.validate_every": 30, "model.dropout": 0.1,
        "train.schedule": "inverse-sqrt", "train.warmup": 0,
    }  # fmt: skip
    train, dev = write_pairs(tmp_path / "train.tsv", 200), write_pairs(tmp_path / "dev.tsv", 20, seed=1)

    def run(name, **more):
        manyheads.train("parallel/graph", train=train, dev=dev, out=tmp_path / name, changes=changes, device="cuda", quiet=True, **more)  # fmt: skip
        return hashlib.sha256((tmp_path / name / "model.safetensors").read_bytes()).hexdigest()

    whole, step_by = run("whole"), ShapedSteps.__call__

    def until_25(self, batch, step, rate):
        if step == 25:
            raise SystemError("killed")
        return step_by(self, batch, step, rate)

    monkeypatch.setattr(ShapedSteps, "__call__", until_25)
    with pytest.raises(SystemError, match="killed"):
        run("killed")
    monkeypatch.setattr(ShapedSteps, "__call__", step_by)
    assert run("killed", resume=True) == whole
