"""A resumed run is the same run: real processes, killed at random steps, end with the same bytes."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from training.corpus import TINY, write_pairs

STEPS = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return write_pairs(folder / "train.tsv", 400), write_pairs(folder / "dev.tsv", 20, seed=1)


def command(data, out, *words, **changes):
    settings = {**TINY, "train.steps": STEPS, "train.validate_every": 20, "train.save_every": 7, **changes}
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [
        sys.executable, "-m", "manyheads", "train", "tiny", "--train", data[0], "--dev", data[1], "--out", str(out),
        "--device", "cpu", *options, *words,
    ]  # fmt: skip


def start(*arguments, **changes):
    return subprocess.Popen(
        command(*arguments, **changes), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def finish(*arguments, **changes):
    process = start(*arguments, **changes)
    _, said = process.communicate(timeout=240)
    return process.returncode, said


def sha256(out):
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


def replay(out):
    return {path.name: path.read_bytes() for path in (out / "replay").iterdir()}


def step_of(out):
    """The last step that the log knows."""
    try:
        events = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    except (OSError, ValueError):
        return 0
    return max((e["step"] for e in events if e["event"] in ("step", "save", "validation")), default=0)


def wait_for(process, out, step):
    while process.poll() is None and step_of(out) < step:
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    "averaging", [{"train.ema": 0.9}, {"train.ema": 0.0, "train.average": 3, "model.dropout": 0.2}]
)
def test_killed_at_random_and_resumed_it_ends_with_the_same_bytes(tmp_path, data, averaging):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert finish(data, whole, **averaging)[0] == 0
    epoch = json.loads((whole / "log.jsonl").read_text().splitlines()[0])["batches_per_epoch"]
    assert 15 < epoch < STEPS - 10
    draw = random.Random(len(averaging))
    for step in (
        draw.randrange(1, 10),
        draw.randrange(10, epoch),
        draw.randrange(epoch, STEPS - 4),
    ):  # two in one epoch
        process = start(data, killed, "--resume", **averaging)
        wait_for(process, killed, step)
        time.sleep(random.Random(step).random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    code, said = finish(data, killed, "--resume", **averaging)
    assert code == 0, said
    assert "resuming from step" in said
    assert sha256(killed) == sha256(whole)
    assert replay(killed) == replay(whole)


@pytest.mark.slow
def test_killed_long_before_it_is_saved_in_turn_it_has_lost_no_more_than_its_minutes(tmp_path, data):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    rare = {"train.validate_every": STEPS, "train.save_every": STEPS}
    assert finish(data, whole, **rare, **{"train.save_minutes": 0})[0] == 0
    process = start(data, killed, **rare, **{"train.save_minutes": 0.001})
    wait_for(process, killed, 20)
    process.send_signal(signal.SIGKILL)
    process.wait()
    code, said = finish(data, killed, "--resume", **rare)
    assert code == 0, said
    assert "resuming from step" in said
    assert sha256(killed) == sha256(whole)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_stops(tmp_path, data, number, status):
    """Late, and with the mean of the last checkpoints: the one that the signal made must not be among them."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    averaging = {"train.ema": 0.0, "train.average": 4}
    assert finish(data, whole, **averaging)[0] == 0
    process = start(data, stopped, **averaging)
    wait_for(process, stopped, STEPS - 20)
    process.send_signal(number)
    process.send_signal(number)  # people press twice
    _, said = process.communicate(timeout=60)
    assert process.returncode == status
    assert "stopped and saved at step" in said
    saved = max(int(path.name.split("-")[1]) for path in (stopped / "checkpoints").glob("step-*"))
    assert f"at step {saved}" in said
    assert finish(data, stopped, "--resume", **averaging)[0] == 0
    assert sha256(stopped) == sha256(whole)


@pytest.mark.slow
def test_a_finished_run_is_left_alone_and_a_new_one_needs_no_checkpoint(tmp_path, data):
    out = tmp_path / "run"
    assert finish(data, out, "--resume", **{"train.steps": 8})[0] == 0  # nothing to go on from: it starts
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    code, said = finish(data, out, "--resume", **{"train.steps": 8})
    assert code == 0
    assert "nothing to do" in said
    after = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before


@pytest.mark.slow
def test_two_runs_do_not_share_a_folder(tmp_path, data):
    out = tmp_path / "run"
    first = start(data, out, **{"train.steps": 5_000})
    wait_for(first, out, 5)
    code, said = finish(data, out, "--resume", **{"train.steps": 5_000})
    assert code == 2
    assert f"process {first.pid} on" in said
    first.kill()
    first.wait()
    reached = step_of(out)
    code, said = finish(data, out, "--resume", **{"train.steps": 1})
    assert code == 2
    assert "must not end before the step it has reached" in said
    assert finish(data, out, "--resume", **{"train.steps": reached + 9})[0] == 0  # the lock died with its owner
