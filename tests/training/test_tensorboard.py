"""What TensorBoard reads of a run is what the log says, each step once; and whatever goes wrong with it, the run goes on."""

import sys
import threading

import pytest

import manyheads
from manyheads.tasks.translate import Task
from manyheads.training.log import read_log
from training.corpus import TINY, write_pairs

GROUPS = {"step": "train", "validation": "dev", "final": "final"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("data") / "train.tsv", 200)


def train(data, out, steps=20, resume=False, **changes):
    how = {
        "train.steps": steps,
        "train.save_every": 8,
        "train.validate_every": 10,
        "train.tensorboard": True,
        **changes,
    }
    return manyheads.train(
        "tiny", train=[data], dev=[data], out=out, changes={**TINY, **how}, device="cpu", resume=resume
    )


def read(out):
    """{name: [(step, value)]} as TensorBoard sees it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def logged(out, event, key):
    """The last value that the log has for each step."""
    return sorted({one["step"]: one[key] for one in read_log(out / "log.jsonl") if one["event"] == event}.items())


def assert_like_the_log(out):
    curves = read(out)
    assert {"train/loss", "train/rate", "train/gradient_norm", "train/tokens_per_second"} < curves.keys()
    assert {"dev/loss", "dev/perplexity", "dev/chrf", "dev/bleu", "dev/exact", "final/chrf"} < curves.keys()
    kinds = {group: event for event, group in GROUPS.items()}
    for name, points in curves.items():
        group, key = name.split("/")
        expected = logged(out, kinds[group], key)
        assert [step for step, _ in points] == [step for step, _ in expected]
        assert [value for _, value in points] == pytest.approx([value for _, value in expected], rel=1e-6)


def test_curves_are_those_of_the_log(tmp_path, data):
    pytest.importorskip("tensorboard")
    before = set(threading.enumerate())
    train(data, tmp_path / "run")
    assert_like_the_log(tmp_path / "run")
    assert not any("AsyncWriter" in type(thread).__name__ for thread in set(threading.enumerate()) - before)


def test_a_run_that_goes_on_repeats_no_step(tmp_path, data, monkeypatch):
    """It fails at step 15, after curves of steps 8 (a save) and 10 were written, and goes on from its save at step 8."""
    pytest.importorskip("tensorboard")
    whole, calls = Task.loss, []

    def failing(self, model, batch):
        calls.append(1)
        return 1 / 0 if len(calls) == 15 else whole(self, model, batch)

    monkeypatch.setattr(Task, "loss", failing)
    monkeypatch.setattr(Task, "fused_loss", lambda self: self.loss)
    with pytest.raises(ZeroDivisionError):
        train(data, tmp_path / "run")
    assert [step for step, _ in read(tmp_path / "run")["train/loss"]] == [8, 10]
    train(data, tmp_path / "run", resume=True)
    assert [one["step"] for one in read_log(tmp_path / "run" / "log.jsonl") if one["event"] == "step"] == [
        8,
        10,
        10,
        16,
        20,
    ]
    assert_like_the_log(tmp_path / "run")
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 2


def test_nobody_asks_nobody_writes(tmp_path, data):
    train(data, tmp_path / "run", steps=2, **{"train.tensorboard": False})
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_it_may_be_asked_for_on_the_way(tmp_path, data):
    pytest.importorskip("tensorboard")
    how = {"train.schedule": "inverse-sqrt", "train.warmup": 1}
    train(data, tmp_path / "run", steps=10, **how, **{"train.tensorboard": False})
    train(data, tmp_path / "run", steps=20, resume=True, **how)
    assert [step for step, _ in read(tmp_path / "run")["train/loss"]] == [16, 20]


def test_without_the_package_training_goes_on_and_says_how_to_get_it(tmp_path, data, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert train(data, tmp_path / "run", steps=2).steps == 2
    said = capsys.readouterr().err
    assert (
        "train.tensorboard needs the package tensorboard, which is not installed; training continues without it" in said
    )
    assert "hint: pip install 'manyheads[tensorboard]'" in said
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_what_cannot_be_written_is_said_once_and_stops_nothing(tmp_path, data, monkeypatch, capsys):
    pytest.importorskip("tensorboard")
    train(data, tmp_path / "run", steps=2, **{"train.tensorboard": False})
    (tmp_path / "run" / "tensorboard").write_text("in the way")
    assert train(data, tmp_path / "run", steps=20, resume=True).steps == 20
    assert capsys.readouterr().err.count("tensorboard cannot be written") == 1
