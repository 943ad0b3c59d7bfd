"""`--on-save-error`: what a run does that cannot save."""

import json
import re
import resource
import shutil
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest

import manyheads
from manyheads import OptionError
from manyheads.errors import SaveError
from manyheads.storage import is_whole
from training.corpus import TINY, write_pairs
from training.test_full_disk import can_mount

SAID = r"could not be saved: .*: [\d,]+ bytes are needed, [\d,]+ are free; what was saved before is untouched"


@pytest.fixture
def train(tmp_path):
    data = write_pairs(tmp_path / "train.tsv", 200), write_pairs(tmp_path / "dev.tsv", 20, seed=1)

    def train(out="run", on_save_error="warn", resume=False, **changes):
        changes = {**TINY, "train.steps": 12, "train.validate_every": 3, **changes}
        return manyheads.train(
            "tiny", train=data[0], dev=data[1], out=tmp_path / out, changes=changes, resume=resume, device="cpu",
            on_save_error=on_save_error,
        )  # fmt: skip

    return train


@pytest.fixture
def full(tmp_path, monkeypatch):
    """A disk that is full from one step to another; log.jsonl tells where the run is."""
    real = shutil.disk_usage

    def fill(first, last):
        def usage(path):
            log = tmp_path / "run" / "log.jsonl"
            events = list(map(json.loads, log.read_text().splitlines())) if log.exists() else []
            seen = max([e["step"] for e in events if e["event"] == "step"], default=0)
            return SimpleNamespace(free=1_000) if first <= seen <= last else real(path)

        monkeypatch.setattr("manyheads.storage.shutil.disk_usage", usage)

    return fill


def events(run, kind):
    return [e for e in map(json.loads, (run / "log.jsonl").read_text().splitlines()) if e["event"] == kind]


def test_a_run_goes_on_without_a_save_and_ends_with_the_same_model(tmp_path, train, full, capsys):
    train("whole")
    full(6, 9)
    train()
    times = capsys.readouterr().err.count("could not be saved")
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("whole", "run")]
    assert [summary["unsaved"] for summary in summaries] == [0, times]
    assert times >= 2  # two checkpoints at least; a model each time that it was better
    assert [e["step"] for e in events(tmp_path / "run", "save")] == [3, 12]
    assert {e["step"] for e in events(tmp_path / "run", "unsaved")} == {6, 9}
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert models[0] == models[1]
    assert not list((tmp_path / "run").rglob("*.writing"))


def test_each_time_is_said_in_one_sentence(train, full, capsys):
    full(6, 9)
    train()
    said = [line for line in capsys.readouterr().err.splitlines() if "could not be saved" in line]
    assert all(re.fullmatch(rf"step [69]: \S+ {SAID}; training continues", line) for line in said), said
    assert any("checkpoints/step-6 " in line for line in said)


def test_the_model_that_counts_as_best_is_the_one_that_is_there(tmp_path, train, full):
    """If the best could not be saved, what is published must not be taken for it."""
    full(6, 99)
    with pytest.raises(SaveError):  # at its end there is no room for its summary either
        train()
    best = [e["step"] for e in events(tmp_path / "run", "validation") if e["best"]]
    assert best == [3]
    assert is_whole(tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-3"]


def test_a_run_without_any_room_ends_with_an_error(train, full):
    full(1, 99)
    with pytest.raises(SaveError, match=r"must save its model at least once, got none in .* in 12 steps"):
        train()


def test_a_mean_of_no_checkpoints_is_none(tmp_path, train, monkeypatch):
    def refuse(*_, **how):
        raise SaveError("a checkpoint could not be saved")

    monkeypatch.setattr("manyheads.training.checkpoints.write_folder", refuse)
    assert train(**{"train.ema": 0.0, "train.average": 2}).reason == "finished"
    assert events(tmp_path / "run", "average") == []
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["unsaved"] == 4 + 1


def test_a_save_that_a_run_ends_with_is_no_matter_of_warning(tmp_path, train, full, monkeypatch):
    """Who is told that it stopped and saved must find it saved."""
    from manyheads.training import api
    from manyheads.training.signals import StopRequest

    stop, real = StopRequest(), api.fit
    stop.number = 15
    monkeypatch.setattr(api, "fit", lambda session, _: real(session, stop))
    full(0, 99)
    with pytest.raises(SaveError, match=SAID):
        train()


def test_other_words_are_refused(train):
    with pytest.raises(OptionError, match="--on-save-error must be one of 'stop', 'warn', got 'wrn'") as caught:
        train(on_save_error="wrn")
    assert caught.value.hint == "did you mean 'warn'?"


def command(folder, out):
    changes = {**TINY, "train.steps": 20, "train.validate_every": 5, "train.keep": 100, "train.ema": 0.0}
    settings = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "manyheads", "train", "tiny", "--train", str(folder / "train.tsv"), "--out", str(out),
            "--device", "cpu", "--on-save-error", "warn", *settings]  # fmt: skip


@pytest.mark.slow
def test_a_limit_on_files(tmp_path, train):
    """No file may be much larger than the model: its checkpoints have the optimizer's state, which is."""
    train("free")
    size = (tmp_path / "free" / "model.safetensors").stat().st_size
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size + 20_000, size + 20_000))
    done = subprocess.run(command(tmp_path, tmp_path / "run"), preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(rf"(?m)^step \d+: \S+/step-\d+ {SAID}; training continues$", done.stderr)) == 4, done.stderr
    assert "File too large: " in done.stderr
    assert is_whole(tmp_path / "run")
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["unsaved"] == 4


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path):
    if not can_mount(tmp_path):
        pytest.skip("needs user namespaces")
    write_pairs(tmp_path / "train.tsv", 200)
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
mount -t tmpfs -o size=1000k none {disk} || exit 99
{" ".join(command(tmp_path, disk / "run"))}; echo "status $?"
cat {disk}/run/summary.json; find {disk} -name '*.writing'; ls {disk}/run/checkpoints
"""
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, timeout=300)
    assert "status 0" in done.stdout, done.stdout + done.stderr
    assert ".writing" not in done.stdout
    assert "step-5" in done.stdout
    assert "step-20" not in done.stdout
    assert '"unsaved": 0' not in done.stdout
    assert done.stderr.count("; training continues") >= 1
