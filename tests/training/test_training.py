"""`manyheads.train` in one process: what it learns, what it writes, what it refuses."""

import json
import math
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import manyheads
from manyheads import OptionError, TrainingError, Translator, machine
from manyheads.errors import InputError, SaveError
from manyheads.storage import is_whole
from manyheads.tasks.translate import Task
from manyheads.training import api as training_api
from manyheads.training import state as training_state
from manyheads.training.run import Run
from training.corpus import TINY, write_pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return [write_pairs(folder / "train.tsv", 300)], [write_pairs(folder / "dev.tsv", 20, seed=1)]


def train(data, out, resume=False, **changes):
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    changes = {**TINY, "train.steps": 8, "train.validate_every": 4, **changes}
    return manyheads.train(
        "tiny", train=data[0], dev=data[1], out=out, changes=changes, resume=resume, device="cpu", quiet=True
    )


def events(out, kind):
    return [e for e in map(json.loads, (out / "log.jsonl").read_text().splitlines()) if e["event"] == kind]


def test_what_aligns_best_is_found_unless_it_is_named_and_a_finished_run_stays_so(tmp_path, data):
    named = {"decode__alignment": "0.1:read"}
    train(data, tmp_path / "run", **named)
    assert (tmp_path / "run" / "recipe.toml").read_text().endswith('alignment = "0.1:read"\n')
    before = (tmp_path / "run" / "recipe.toml").stat().st_mtime_ns
    assert train(data, tmp_path / "run", resume=True).reason == "finished"
    assert (tmp_path / "run" / "recipe.toml").stat().st_mtime_ns == before


@pytest.mark.parametrize(("began", "now"), [(False, True), (True, False)])
def test_a_run_goes_on_in_the_precision_that_it_began_with(tmp_path, data, monkeypatch, began, now):
    """Also on another processor."""
    monkeypatch.setattr(machine, "WIDE", 1)
    told = {"train__schedule": "inverse-sqrt", "train__warmup": 1}
    monkeypatch.setattr(machine, "cpu_multiplies_bf16", lambda: began)
    train(data, tmp_path / "whole", **told)
    train(data, tmp_path / "run", train__steps=4, **told)
    monkeypatch.setattr(machine, "cpu_multiplies_bf16", lambda: now)
    train(data, tmp_path / "run", resume=True, **told)
    whole, resumed = (events(tmp_path / name, "start") for name in ("whole", "run"))
    precision = "bf16" if began else "fp32"
    assert {one["machine"].rpartition(" ")[2] for one in (*whole, *resumed)} == {precision}
    assert len(resumed) == 2
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("device", "wanted", "noted", "found"),
    [("cpu", "auto", "", "fp32"), ("cpu", "auto", "bf16", "bf16"), ("cpu", "bf16", "", "bf16"), ("cuda", "auto", "fp32", "bf16")],
)  # fmt: skip
def test_before_a_precision_was_noted_it_was_float32(monkeypatch, device, wanted, noted, found):
    monkeypatch.setattr(training_api, "newest_progress", lambda _: training_state.Progress(precision=noted))
    now = machine.Machine(torch.device(device), "bf16")
    assert training_api.as_before(now, wanted, Run(Path("run"))).precision == found


def test_a_team_multiplies_in_what_all_are_good_at():
    here = machine.Machine(torch.device("cpu"), "bf16")
    for others, found in ((["bf16", "bf16"], "bf16"), (["bf16", "fp32"], "fp32")):
        team = SimpleNamespace(gather=lambda own, others=others: [own, *others])
        assert training_api.as_one(here, team).precision == found


@pytest.mark.slow
def test_it_learns_to_write_backwards(tmp_path):
    pairs = [write_pairs(tmp_path / "train.tsv", 4_000)], [write_pairs(tmp_path / "dev.tsv", 100, seed=1)]
    wider = {"model__width": 64, "model__feedforward": 128, "model__layers": 2, "model__dropout": 0.0}
    trained = train(
        pairs, tmp_path / "run", train__steps=1_200, train__tokens=1_024, train__rate=3e-3, train__validate_every=400,
        train__warmup=100, train__validate_lines=100, **wider,
    )  # fmt: skip
    assert trained.metrics["chrf"] > 95
    assert Translator.load(tmp_path / "run", "cpu")("abcdef") == "fedcba"


def test_a_run_leaves_what_the_readme_says(tmp_path, data):
    trained = train(data, tmp_path / "run")
    assert trained.steps == 8
    names = {path.name for path in trained.folder.iterdir()} - {".lock"}
    assert names == {
        "recipe.toml", "tokenizer.json", "model.safetensors", "manifest.json", "summary.json",
        "checkpoints", "log.jsonl", "report.html", "data", "replay", "inspect.html",
    }  # fmt: skip
    assert is_whole(trained.folder)
    assert Translator.load(trained.folder, "cpu").recipe.decode.alignment.startswith("0")
    assert not list((trained.folder / "data").glob("train.*"))
    assert sorted(path.name for path in (trained.folder / "checkpoints").iterdir()) == ["step-4", "step-8"]
    (start,) = events(trained.folder, "start")
    assert start["steps"] == 8
    assert [e["step"] for e in events(trained.folder, "validation")] == [4, 8]
    (final,) = events(trained.folder, "final")
    assert {"loss", "perplexity", "bleu", "chrf"} <= final.keys()
    assert math.isclose(final["perplexity"], math.exp(final["loss"]), rel_tol=1e-9)


def test_epochs_become_steps(tmp_path, data):
    trained = train(data, tmp_path / "run", train__steps=None, train__epochs=2, train__validate_every=1_000)
    (start,) = events(tmp_path / "run", "start")
    assert trained.steps == 2 * start["batches_per_epoch"]


def test_training_stops_when_the_score_no_longer_improves(tmp_path, data):
    trained = train(
        data, tmp_path / "run", train__steps=500, train__rate=0.0, train__validate_every=2, train__patience=3
    )
    assert trained.steps == 8  # one validation to have a score, three to lose patience
    assert events(tmp_path / "run", "final")[0]["reason"] == "patience"


def test_without_a_development_set_some_pairs_are_held_out(tmp_path, data):
    train((data[0], None), tmp_path / "run")
    held_out = (tmp_path / "run" / "data" / "dev.source.txt").read_text().splitlines()
    assert 1 <= len(held_out) <= 60  # a source with all its pairs; short ones are there many times


def test_parts_of_a_batch_give_the_gradient_of_the_whole(tmp_path, data):
    """1 × 64 and 4 × 16: the loss is divided by the tokens of the batch, not of its parts."""
    train(data, tmp_path / "run", train__save_every=1)
    recipe = manyheads.load_recipe(
        "tiny", {**TINY, "model.dropout": 0.0, "train.tokens": 64 * 10, "train.smoothing": 0.1}
    )
    files = {"tokenizer.json": (tmp_path / "run" / "tokenizer.json").read_bytes()}
    task = Task.prepare(recipe, tmp_path / "data", {"train": data[0], "dev": data[1]}, files, lambda _: None)
    batch = max((task.batch(step) for step in range(task.batches_per_epoch)), key=lambda b: len(b.source))
    assert len(batch.source) >= 64
    batch = batch.with_tensors(t[:64] for t in batch.tensors())
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        whole, parts = (gradients(task, batch, n, dtype) for n in (1, 4))
        for name in whole:
            difference = (whole[name] - parts[name]).norm() / whole[name].norm().clamp(min=1e-30)
            assert difference <= tolerance, (name, dtype)


def gradients(task, batch, parts, dtype):
    torch.manual_seed(1)
    model = task.build().to(dtype)
    assert len(batch.split(parts)) == parts
    for part in batch.split(parts):
        # The loss of a task is float32 on purpose; here the sum itself is to be exact.
        logits = model(part.source, part.target)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), part.labels.flatten(), ignore_index=0, label_smoothing=0.1, reduction="sum"
        )
        if dtype == torch.float32:
            assert torch.equal(loss, task.loss(model, part))
        (loss / batch.count).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def test_a_batch_counts_its_target_tokens(tmp_path, data):
    recipe = manyheads.load_recipe("tiny", TINY)
    task = Task.prepare(recipe, tmp_path / "data", {"train": data[0], "dev": data[1]}, {}, lambda _: None)
    for step in range(task.batches_per_epoch):
        batch = task.batch(step)
        assert batch.count == (batch.labels != 0).sum()
        assert torch.equal(
            batch.target[:, 1:][batch.labels[:, 1:] != 0], batch.labels[:, :-1][batch.labels[:, 1:] != 0]
        )
        assert all(batch.target[:, 0] == 1)
        assert (batch.labels == 2).sum(1).eq(1).all()
        assert (batch.source == 2).sum(1).eq(1).all()


def test_a_gradient_that_is_not_finite_changes_nothing_and_many_of_them_stop_the_run(tmp_path, data, monkeypatch):
    whole = Task.loss
    monkeypatch.setattr(Task, "loss", lambda self, model, batch: whole(self, model, batch) * float("nan"))
    monkeypatch.setattr(Task, "fused_loss", lambda self: self.loss)
    with pytest.raises(TrainingError, match=r"diverged.*not finite 20 times in a row before step 20"):
        train(data, tmp_path / "run", train__steps=100, train__validate_every=100, train__save_every=10, train__ema=0.0)
    saved = training_state.read_tensors(tmp_path / "run" / "checkpoints" / "step-10", "weights.safetensors")
    assert all(tensor.isfinite().all() for tensor in saved.values())


def test_one_bad_batch_is_skipped(tmp_path, data, monkeypatch):
    whole, calls = Task.loss, []

    def loss(self, model, batch):
        calls.append(1)
        return whole(self, model, batch) * (float("inf") if len(calls) == 3 else 1)

    monkeypatch.setattr(Task, "loss", loss)
    monkeypatch.setattr(Task, "fused_loss", lambda self: self.loss)
    train(data, tmp_path / "run")
    weights = training_state.read_tensors(tmp_path / "run" / "checkpoints" / "step-8", "weights.safetensors")
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_a_folder_with_something_else_in_it_is_refused(tmp_path, data):
    (tmp_path / "thesis.tex").write_text("years of work")
    for resume in (False, True):
        with pytest.raises(OptionError, match=r"new or empty folder, got .*: it holds thesis.tex"):
            train(data, tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["thesis.tex"]


def test_a_run_is_not_written_over(tmp_path, data):
    train(data, tmp_path / "run")
    with pytest.raises(OptionError, match="new or empty folder") as caught:
        train(data, tmp_path / "run")
    assert caught.value.hint == "--resume continues the run in it"


def test_another_recipe_is_another_run(tmp_path, data):
    train(data, tmp_path / "run")
    with pytest.raises(OptionError, match=r"(?s)resumes with the recipe it started with.*model.width: was 32, now 64"):
        train(data, tmp_path / "run", resume=True, model__width=64, train__steps=20)


def test_more_steps_go_on_from_the_end(tmp_path, data):
    same = {"train__schedule": "inverse-sqrt", "train__warmup": 1}  # all that does not depend on how long it is
    train(data, tmp_path / "run", **same)
    longer = train(data, tmp_path / "run", resume=True, train__steps=16, **same)
    assert longer.steps == 16
    whole = train(data, tmp_path / "whole", train__steps=16, **same)
    a, b = ((run.folder / "model.safetensors").read_bytes() for run in (longer, whole))
    assert a == b


def test_changed_data_is_noticed(tmp_path, data):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_bytes(Path(data[0][0]).read_bytes())
    train(([str(pairs)], data[1]), tmp_path / "run")
    text = pairs.read_text()
    pairs.write_text(text[:-2] + ("a" if text[-2] != "a" else "b") + "\n")  # as long as it was
    with pytest.raises(InputError, match=r"data it started with, got other content in .*pairs.tsv"):
        train(([str(pairs)], data[1]), tmp_path / "run", resume=True, train__steps=20)


def test_a_damaged_checkpoint_is_passed_over(tmp_path, data):
    whole = train(data, tmp_path / "whole", train__steps=12)
    train(data, tmp_path / "run", train__steps=12)
    (tmp_path / "run" / "summary.json").unlink()
    forget_ending(tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / "step-12" / "weights.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    again = train(data, tmp_path / "run", resume=True, train__steps=12)
    assert events(tmp_path / "run", "start")[-1]["step"] == 8
    assert (again.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()


def forget_ending(run):
    """As if the run had been killed before it was marked as finished."""
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["files"]["summary.json"]
    (run / "manifest.json").write_text(json.dumps(manifest))


def test_a_full_disk_leaves_the_last_save(tmp_path, data, monkeypatch):
    import shutil
    from types import SimpleNamespace

    real = shutil.disk_usage

    def usage(path):
        saved = (tmp_path / "run" / "checkpoints" / "step-4").exists()
        return SimpleNamespace(free=1_000) if saved else real(path)

    monkeypatch.setattr("manyheads.storage.shutil.disk_usage", usage)
    with pytest.raises(SaveError, match=r"could not be saved: No space .*: [\d,]+ bytes are needed, 1,000 are free"):
        train(data, tmp_path / "run")
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-4"]
    resumed, whole = train(data, tmp_path / "run", resume=True), train(data, tmp_path / "whole")
    a, b = ((run.folder / "model.safetensors").read_bytes() for run in (resumed, whole))
    assert a == b


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, data):
    out = tmp_path / "run"
    out.mkdir()
    (out / "log.jsonl").symlink_to("/dev/full")
    trained = train(data, out, resume=True)
    assert trained.steps == 8


@pytest.mark.parametrize("name", ["ready.json", "train.source.ids", "train.target.offsets", "dev.source.txt"])
def test_damaged_ids_are_made_again(tmp_path, data, name, monkeypatch):
    from manyheads.training import api

    whole = train(data, tmp_path / "whole")
    monkeypatch.setattr(api, "fit", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(data, tmp_path / "run")
    monkeypatch.undo()
    path = tmp_path / "run" / "data" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    again = train(data, tmp_path / "run", resume=True)
    assert (again.folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()


def test_a_stream_that_is_gone_stops_nothing(tmp_path, data, monkeypatch):
    import sys

    full = open("/dev/full", "w", buffering=1)  # noqa: SIM115 - closing it fails too
    monkeypatch.setattr(sys, "stderr", full)
    changes = {**TINY, "train.steps": 4}
    manyheads.train("tiny", train=data[0], dev=data[1], out=tmp_path / "run", changes=changes, device="cpu")
    with suppress(OSError):
        full.close()
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_recipe_that_is_built_takes_no_changes(tmp_path, data):
    with pytest.raises(OptionError, match="changes need the name of a recipe"):
        manyheads.train(manyheads.load_recipe("tiny"), train=data[0], out=tmp_path, changes={"train.steps": 3})


def test_what_is_translated_is_spread_over_the_set_with_all_references():
    from manyheads.tasks.translate import spread_pairs

    pairs = [(f"w{n // 2}", f"t{n}") for n in range(40)]
    chosen = spread_pairs(pairs, 5)
    assert [source for source, _ in chosen] == ["w0", "w0", "w4", "w4", "w8", "w8", "w12", "w12", "w16", "w16"]
    assert spread_pairs(pairs, 1_000) == pairs
    assert spread_pairs(pairs, 0) == []
