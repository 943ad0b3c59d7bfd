"""Several processes train one model: the same gradient, the same bytes after a kill, one voice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manyheads.inspection.moments import steps_in
from training.corpus import TINY, write_pairs
from training.test_resume import sha256, step_of, wait_for

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return write_pairs(folder / "train.tsv", 400), write_pairs(folder / "dev.tsv", 20, seed=1)


def torchrun(*words, restarts=0, processes=2):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{TESTS}"}
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", "0",
         "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--max-restarts", str(restarts), *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def train(data, out, *words, restarts=0, processes=2, program=("-m", "manyheads"), **changes):
    settings = {**TINY, "train.steps": 60, "train.validate_every": 20, "train.save_every": 7, "train.ema": 0.9,
                "model.dropout": 0.1, **changes}  # fmt: skip
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return torchrun(
        *program, "train", "tiny", "--train", data[0], "--dev", data[1], "--out", out, "--device", "cpu",
        *options, *words, restarts=restarts, processes=processes,
    )  # fmt: skip


def finish(process):
    out, said = process.communicate(timeout=300)
    return process.returncode, out, said


def processes_of(run):
    """{rank: process number} of those that train into a folder."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            variables = dict(v.split(b"=", 1) for v in (place / "environ").read_bytes().split(b"\0") if b"=" in v)
        except OSError:
            continue
        if str(run).encode() in words and b"RANK" in variables:
            found[int(variables[b"RANK"])] = int(place.name)
    return found


@pytest.mark.slow
def test_shares_of_a_batch_make_the_same_gradient(tmp_path, data):
    """1 × 64 = 2 × 32: also in parts, with weights shared out, and for fewer pairs than processes."""
    status, out, said = finish(torchrun(TESTS / "training" / "shares.py", tmp_path / "prepared", data[0]))
    assert status == 0, said
    results = json.loads(out)
    assert results[0]["pairs"] >= 64
    assert results[-1]["pairs"] == 1
    for result in results:
        assert result["difference"] <= 1e-12 * max(1, result["largest"]), result
        assert result["largest"] > 1e-6
        assert result["losses"][0] == pytest.approx(result["losses"][1], abs=1e-6)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    out = tmp_path_factory.mktemp("whole") / "run"
    status, _, said = finish(train(data, out))
    assert status == 0, said
    return out, said


@pytest.mark.slow
def test_two_processes_speak_with_one_voice(whole):
    out, said = whole
    assert said.count("in each of 2 processes") == 1
    assert said.count("done: ") == 1
    steps = [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines() if '"step"' in line]
    assert steps == sorted(steps)
    assert step_of(out) == 60
    assert steps_in(out / "replay") == [0, 1, 2, 5, 10, 20, 40, 60]
    assert (out / "inspect.html").is_file()
    assert "FutureWarning" not in said


@pytest.mark.slow
def test_a_killed_process_is_restarted_by_torchrun_and_the_bytes_are_the_same(tmp_path, data, whole):
    out = tmp_path / "run"
    process = train(data, out, restarts=2)
    for rank, step in ((1, 10), (0, 40)):
        wait_for(process, out, step)
        while rank not in processes_of(out):
            time.sleep(0.05)
        os.kill(processes_of(out)[rank], signal.SIGKILL)
        time.sleep(1)
    status, _, said = finish(process)
    assert status == 0, said
    assert said.count("resuming from step") == 2
    assert sha256(out) == sha256(whole[0])


@pytest.mark.slow
def test_a_team_saves_out_of_turn_at_the_same_step_and_ends_with_the_same_bytes(tmp_path, data, whole):
    out = tmp_path / "run"
    status, _, said = finish(train(data, out, **{"train.save_minutes": 1e-6}))
    assert status == 0, said
    events = map(json.loads, (out / "log.jsonl").read_text().splitlines())
    saves = [event["step"] for event in events if event["event"] == "save"]
    assert len([step for step in saves if step % 7]) > 10
    assert saves == sorted(set(saves))
    assert sha256(out) == sha256(whole[0])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_team_has_saved_and_goes_on_to_the_same_bytes(tmp_path, data, whole, number):
    out = tmp_path / "run"
    process = train(data, out)
    wait_for(process, out, 20)
    process.send_signal(number)
    status, _, said = finish(process)
    assert status != 0
    assert "stopped and saved at step" in said
    status, _, said = finish(train(data, out, "--resume"))
    assert status == 0, said
    assert sha256(out) == sha256(whole[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "changes"),
    [(3, {}), (2, {"train.shard": "true", "train.accumulate": 4})],
    ids=["three", "shared out"],
)
def test_other_teams_resume_to_the_same_bytes(tmp_path, data, processes, changes):
    """Of three, the order of a sum counts. Weights that are shared out come together again, also in parts of a batch."""
    runs = []
    for name, halt in (("whole", None), ("halted", 12)):
        out = tmp_path / name
        process = train(data, out, processes=processes, **{"train.steps": 30, **changes})
        if halt:
            wait_for(process, out, halt)
            process.send_signal(signal.SIGTERM)
            finish(process)
            process = train(data, out, "--resume", processes=processes, **{"train.steps": 30, **changes})
        status, _, said = finish(process)
        assert status == 0, said
        runs.append(out)
    assert sha256(runs[0]) == sha256(runs[1])


SPEAKS_LATE = """
import time
import manyheads.cli.main as command

fail = command.fail
command.fail = lambda *said: (time.sleep(3), fail(*said))
command.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_what_the_first_process_refuses_is_said_once(tmp_path, data, late):
    """torchrun stops the first as soon as another ends: it must have spoken by then."""
    (tmp_path / "bad.tsv").write_text("one column\n")
    (tmp_path / "late.py").write_text(SPEAKS_LATE)
    program = [tmp_path / "late.py"] if late else ["-m", "manyheads"]
    status, _, said = finish(train([tmp_path / "bad.tsv", data[1]], tmp_path / "run", program=program))
    assert status == 1  # torchrun's own
    assert said.count("must be source TAB target") == 1
    assert "Traceback" not in said.split("torch/distributed")[0]


ABORTS = """
import atexit, os
import manyheads.team
from manyheads.cli.main import main

atexit.register(os.abort)
main({words})
"""


@pytest.mark.parametrize(("words", "status"), [(["recipes"], 0), (["recipes", "show", "none"], 2)])
def test_what_python_does_at_its_end_takes_no_finished_work_down(words, status):
    """A thread of gloo that lets go of a tensor while Python ends aborts the process: here that always happens."""
    others = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    code = ABORTS.format(words=words)
    for environment, expected in ((others, status), ({}, -signal.SIGABRT)):
        result = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
        )
        assert result.returncode == expected, result.stderr
        assert "preset" in result.stderr if status else "base" in result.stdout
