"""What a run goes on from if nothing was saved, if what was saved is gone, and what it must not lose on the way."""

import json
import shutil

import pytest
import torch

from manyheads import train
from manyheads.errors import InputError, OptionError
from manyheads.tasks.translate import Task
from manyheads.training.steps import EagerSteps
from training.corpus import TINY, write_pairs

FEW = {"train.steps": 6, "train.validate_every": 3, "train.warmup": 0, "train.ema": 0.0, "train.tokens": 128, "train.replay": False}  # fmt: skip


@pytest.fixture
def data(tmp_path):
    files = {name: str(write_pairs(tmp_path / f"{name}.tsv", count, seed)) for name, count, seed in (("train", 60, 1), ("dev", 10, 2))}  # fmt: skip
    return {**files, "device": "cpu", "quiet": True}


@pytest.fixture
def base(data, tmp_path):
    train("tiny", **data, out=tmp_path / "base", changes={**TINY, **FEW, "train.steps": 30})
    return tmp_path / "base"


def model_of(run):
    return (run / "model.safetensors").read_bytes()


def events(run, kind):
    found = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [event for event in found if event["event"] == kind]


STEP = EagerSteps.__call__


def killed_at(monkeypatch, step):
    """As by a power cut: nothing is saved."""

    def compute(self, batch, number, rate):
        if number == step:
            raise SystemError("killed")
        return STEP(self, batch, number, rate)

    monkeypatch.setattr(EagerSteps, "__call__", compute)


def test_a_fine_tuning_that_saved_nothing_begins_with_its_base_again(data, base, tmp_path, monkeypatch):
    """Whoever goes on need not say again what it was: the run knows."""
    whole = train(base=base, **data, out=tmp_path / "whole", changes=FEW)
    killed_at(monkeypatch, 2)
    with pytest.raises(SystemError, match="killed"):
        train(base=base, **data, out=tmp_path / "killed", changes=FEW)
    monkeypatch.undo()
    train(**data, out=tmp_path / "killed", resume=True)
    assert model_of(tmp_path / "killed") == model_of(whole.folder)
    shutil.rmtree(base)  # once something is saved, nobody needs it
    assert train(**data, out=tmp_path / "killed", changes={"train.steps": 8}, resume=True).steps == 8


def spoil_all(checkpoints):
    for weights in checkpoints.glob("step-*/weights.safetensors"):
        weights.write_bytes(b"")


@pytest.mark.parametrize("damage", [shutil.rmtree, spoil_all], ids=["gone", "damaged"])
def test_a_finished_model_is_not_begun_anew(data, tmp_path, damage):
    run = train("tiny", **data, out=tmp_path / "run", changes={**TINY, **FEW}).folder
    before = model_of(run)
    damage(run / "checkpoints")
    with pytest.raises(InputError, match=r"continues from its last checkpoint, got .*run without a complete one"):
        train(**data, out=run, changes={"train.steps": 9}, resume=True)
    assert model_of(run) == before
    assert train(**data, out=run, resume=True).steps == 6  # it is finished all the same


def test_a_run_with_damaged_checkpoints_alone_is_not_begun_anew(data, tmp_path):
    run = train("tiny", **data, out=tmp_path / "run", changes={**TINY, **FEW}).folder
    (run / "summary.json").unlink()
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["files"].pop("summary.json", None)
    (run / "manifest.json").write_text(json.dumps(manifest))
    spoil_all(run / "checkpoints")
    with pytest.raises(InputError, match="resumes from a complete checkpoint, got none"):
        train(**data, out=run, resume=True)


def test_what_was_skipped_before_a_stop_is_counted(data, tmp_path, monkeypatch):
    loss, calls = Task.loss, []

    def broken(self, model, batch):
        calls.append(1)
        return loss(self, model, batch) * (float("nan") if len(calls) == 2 else 1)

    monkeypatch.setattr(Task, "loss", broken)
    monkeypatch.setattr(Task, "fused_loss", lambda self: self.loss)
    changes = {**TINY, **FEW, "train.validate_every": 4, "train.save_every": 3}
    killed_at(monkeypatch, 4)
    with pytest.raises(SystemError):
        train("tiny", **data, out=tmp_path / "run", changes=changes)
    killed_at(monkeypatch, None)
    run = train(**data, out=tmp_path / "run", resume=True).folder
    assert [event["step"] for event in events(run, "not_finite")] == [2]
    assert json.loads((run / "summary.json").read_text())["not_finite"] == 1


def test_alignment_is_looked_for_again_by_who_goes_on(data, tmp_path, monkeypatch):
    """What training has found is not what the recipe asks for."""
    found = iter(["0.0:read", "0.1:read", "0.0:wrote"])
    monkeypatch.setattr("manyheads.tasks.translate.find_reading", lambda *_: next(found))
    run = train("tiny", **data, out=tmp_path / "run", changes={**TINY, **FEW}).folder
    assert 'alignment = "0.0:read"' in (run / "recipe.toml").read_text()
    train(**data, out=run, changes={"train.steps": 9}, resume=True)
    assert 'alignment = "0.1:read"' in (run / "recipe.toml").read_text()
    wished = {"train.steps": 12, "decode.alignment": "0.1:read"}
    train(**data, out=run, changes=wished, resume=True)
    train(**data, out=run, changes={"train.steps": 14}, resume=True)
    assert 'alignment = "0.1:read"' in (run / "recipe.toml").read_text()


def test_a_run_that_is_told_to_end_where_it_was_stopped_has_a_model(data, tmp_path, monkeypatch):
    changes = {**TINY, **FEW, "train.steps": 20, "train.validate_every": 20, "train.save_every": 4}
    killed_at(monkeypatch, 5)
    with pytest.raises(SystemError):
        train("tiny", **data, out=tmp_path / "run", changes=changes)
    monkeypatch.undo()
    ended = train(**data, out=tmp_path / "run", changes={"train.steps": 4}, resume=True)
    assert ended.steps == 4
    assert ended.metrics["loss"] > 0
    assert torch.isfinite(torch.tensor(ended.metrics["loss"]))


def test_who_is_refused_removes_no_folder_of_somebody_else_s(data, tmp_path):
    """A name may lead to an old folder by way of one that is only now made."""
    things = tmp_path / "things"
    things.mkdir()
    (things / "notes.txt").write_text("mine")
    for out in (tmp_path / "new" / ".." / "things", things):
        with pytest.raises(OptionError, match=r"new or empty folder, got .*things: it holds notes\.txt"):
            train("tiny", **data, out=out, changes={**TINY, **FEW})
        assert [path.name for path in things.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("fewer", [{"train.steps": 4}, {"train.steps": None, "train.epochs": 1, "train.tokens": 128}])
def test_who_is_refused_has_changed_nothing_of_a_run(data, tmp_path, fewer):
    run = train("tiny", **data, out=tmp_path / "run", changes={**TINY, **FEW, "train.steps": 30}).folder
    before = {name: (run / name).read_bytes() for name in ("summary.json", "recipe.toml", "model.safetensors")}
    with pytest.raises(OptionError, match=r"must not end before the step it has reached, got \d+ steps .* at step 30"):
        train(**data, out=run, changes=fewer, resume=True)
    assert {name: (run / name).read_bytes() for name in before} == before
    assert train(**data, out=run, resume=True).steps == 30


def test_what_is_changed_by_who_goes_on_is_told(data, tmp_path, capsys):
    """Also by who names the recipe, and leaves out what was changed of it."""
    run = train("tiny", **data, out=tmp_path / "run", changes={**TINY, **FEW}).folder
    train(
        "tiny",
        **{**data, "quiet": False},
        out=run,
        changes={**TINY, **FEW, "train.steps": 9, "decode.beam": 3},
        resume=True,
    )
    said = capsys.readouterr().err
    assert "train.steps: was 6, now 9" in said
    assert "decode.beam: was 2, now 3" in said
    assert "description" not in said


def test_what_a_finished_run_does_not_take_is_told(data, tmp_path, capsys):
    run = train("tiny", **data, out=tmp_path / "run", changes={**TINY, **FEW}).folder
    before = (run / "recipe.toml").read_bytes()
    train(**{**data, "quiet": False}, out=run, changes={"decode.beam": 3}, resume=True)
    said = capsys.readouterr().err
    assert "decode.beam: was 2, now 3 (ignored)" in said
    assert "nothing to do" in said
    assert (run / "recipe.toml").read_bytes() == before
