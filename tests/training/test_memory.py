"""A batch that memory is too short for: split, with the same gradient, and counted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import manyheads
from manyheads.errors import TrainingError
from manyheads.machine import Machine
from manyheads.recipe import load_recipe
from manyheads.tasks.pairs import PackedPairs, PairBatch
from manyheads.tasks.translate import Task
from manyheads.training import steps
from manyheads.training.memory import in_smaller_parts, is_out_of_memory
from manyheads.training.state import State, read_tensors
from training.corpus import TINY, write_pairs
from training.test_processes import finish, torchrun

CPU = Machine(torch.device("cpu"), "fp32")
SHORT = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"),
    RuntimeError("could not create a primitive"),
    MemoryError(),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return write_pairs(folder / "train.tsv", 300), write_pairs(folder / "dev.tsv", 20, seed=1)


@pytest.fixture
def train(tmp_path, data):
    def train(out="run", resume=False, **changes):
        changes = {**TINY, "train.steps": 8, "train.validate_every": 4, "model.dropout": 0.0, **changes}
        return manyheads.train(
            "tiny", train=data[0], dev=data[1], out=tmp_path / out, changes=changes, resume=resume, device="cpu"
        )

    return train


def events(run, kind):
    return [e for e in map(json.loads, (run / "log.jsonl").read_text().splitlines()) if e["event"] == kind]


def short_of_memory(monkeypatch, fits, error=SHORT[0]):
    """Passes that `fits` refuses fail: every other one in the backward pass, when some gradients are there already."""
    whole, calls = Task.loss, []

    def loss(self, model, batch):
        value = whole(self, model, batch)
        calls.append(batch)
        if fits(batch, len(calls)):
            return value
        if len(calls) % 2:
            raise error
        next(model.encoder.parameters()).register_hook(failing_once(error))
        return value

    monkeypatch.setattr(Task, "loss", loss)
    monkeypatch.setattr(Task, "fused_loss", lambda self: self.loss)
    return calls


def failing_once(error):
    left = [error]

    def fail(gradient):
        if left:
            raise left.pop()

    return fail


# ── the gradient ────────────────────────────────────────────────────────────────────────────────────────────────────


def gradients(task, config, batch, monkeypatch):
    """As an update leaves them for the optimizer, and the loss."""
    torch.manual_seed(1)
    state, found = State(task.build().double(), config, CPU.device), {}

    def keep(optimizer, parameters, rate, clip):
        found.update({name: p.grad.clone() for name, p in state.model.named_parameters()})
        return torch.zeros(()), torch.zeros(())

    with monkeypatch.context() as patch:
        patch.setattr(steps, "update", keep)
        loss, _, _ = steps.EagerSteps(state, config, CPU, task.loss)(batch, 1, 0.1)
    return found, loss


@pytest.mark.parametrize(("kind", "largest"), [("padded", 1), ("padded", 9), ("packs", 5), ("padded packs", 5)])
def test_a_split_batch_has_the_gradient_of_the_whole(tmp_path, data, monkeypatch, kind, largest):
    recipe = manyheads.load_recipe("tiny", {**TINY, "model.dropout": 0.0, "train.tokens": 200, "train.accumulate": 2})
    task = Task.prepare(recipe, tmp_path, {"train": data[0], "dev": data[1]}, {}, lambda _: None)
    task.arrange(0 if kind == "padded" else 2)
    batch = task.packs(3) if kind == "packs" else task.batch(3)
    whole, loss = gradients(task, recipe.train, batch, monkeypatch)
    calls = short_of_memory(monkeypatch, lambda part, _: pairs_of(part) <= largest)
    split, split_loss = gradients(task, recipe.train, batch, monkeypatch)
    assert sum(pairs_of(part) for part in calls) > len(batch.pairs)  # some were tried in vain
    assert split_loss.item() == pytest.approx(loss.item(), rel=1e-6)  # a loss is float32 on purpose
    for name, gradient in whole.items():
        assert (gradient - split[name]).norm() <= 1e-12 * max(1, gradient.norm()), name


def pairs_of(part):
    return int((part.labels == 2).sum())


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=9), st.integers(0, 3))
def test_halves_of_a_pack_are_its_pairs_in_order(lengths, padding):
    import numpy as np

    from manyheads.tasks.pairs import pack_pairs
    from manyheads.text.dropout import one_after_the_other
    from manyheads.text.packs import Room

    sides = [one_after_the_other([np.arange(3, 3 + n[side]) for n in lengths]) for side in (0, 1)]
    room = Room(*(sum(n[side] + 1 for n in lengths) + 7 * padding for side in (0, 1)), len(lengths) + padding)
    pack = pack_pairs(*sides, room, 6)
    parts = [pack]
    while len(parts) < len(lengths):
        parts = [half for part in parts for half in part.halves()]
    assert all(isinstance(part, PackedPairs) and part.halves()[0] is part for part in parts)
    if len(lengths) > 1:  # what is not halved keeps its padding
        for part, (source, target) in zip(parts, lengths, strict=True):
            assert part.source.tolist() == [*range(3, 3 + source), 2]
            assert part.target.tolist() == [1, *range(3, 3 + target)]
            assert part.labels.tolist() == [*range(3, 3 + target), 2]
            assert part.source_offsets.tolist() == [0, source + 1]
            assert part.target_offsets.tolist() == [0, target + 1]


class Letters(str):
    def halves(self):
        return [Letters(self[: len(self) // 2]), Letters(self[len(self) // 2 :])] if len(self) > 1 else [self]


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4), st.integers(1, 25))
def test_parts_are_halved_until_they_fit_and_nothing_is_lost(texts, room):
    forgotten = []

    def learn(parts):
        if max(map(len, parts)) > room:
            raise SHORT[len(forgotten) % len(SHORT)]
        return "".join(parts)

    result, count = in_smaller_parts(learn, list(map(Letters, texts)), lambda: forgotten.append(1), "a test")
    assert result == "".join(texts)
    assert (count > len(texts)) == bool(forgotten)


@pytest.mark.parametrize("error", SHORT)
def test_out_of_memory_has_many_names(error):
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes differ"), ValueError("alloc"), TrainingError("cannot allocate")]
)
def test_other_errors_are_not_taken_for_it(error):
    assert not is_out_of_memory(error)
    with pytest.raises(type(error)):
        in_smaller_parts(lambda _: (_ for _ in ()).throw(error), [Letters("ab")], lambda: None, "a test")


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_splits_says_it_once_and_counts_every_time(tmp_path, train, monkeypatch, capsys):
    train("whole")
    capsys.readouterr()
    short_of_memory(monkeypatch, lambda part, call: call not in (3, 8))
    train()
    said = capsys.readouterr().err
    assert said.count("not enough memory") == 1
    assert "step 3: not enough memory for its batch at once, computed in 2 parts with the same gradient" in said
    assert "train.accumulate=2 (also with --resume)" in said
    split = events(tmp_path / "run", "split")
    assert [(e["step"], e["parts"]) for e in split] == [(3, 2), (6, 2)]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["split"] == 2
    assert json.loads((tmp_path / "whole" / "summary.json").read_text())["split"] == 0
    weights = [
        read_tensors(tmp_path / run / "checkpoints" / "step-8", "weights.safetensors") for run in ("whole", "run")
    ]
    for name, tensor in weights[0].items():
        torch.testing.assert_close(tensor, weights[1][name], rtol=1e-4, atol=1e-5)


def test_a_run_that_goes_on_after_a_split_is_the_same_run(tmp_path, train, monkeypatch):
    """Nothing is drawn from what a split would have changed: dropout is a function of the step and the parts."""
    dropout = {"model.dropout": 0.1, "train.schedule": "inverse-sqrt", "train.warmup": 1}
    with monkeypatch.context() as patch:
        short_of_memory(patch, lambda part, call: call != 3)
        train(**dropout, **{"train.steps": 4})
    train(resume=True, **dropout)
    with monkeypatch.context() as patch:
        short_of_memory(patch, lambda part, call: call != 3)
        train("whole", **dropout)
    models = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("run", "whole")]
    assert models[0] == models[1]


def test_if_one_sentence_is_too_much_the_run_ends_and_its_last_save_is_whole(tmp_path, train, monkeypatch):
    seen = []

    def fits(part, call):
        seen.append(len(part.source))
        return call <= 5

    short_of_memory(monkeypatch, fits, SHORT[1])
    with pytest.raises(
        TrainingError, match=r"one sentence at a time, got too little for one of \d+ in the batch of step 6: Ru"
    ) as e:
        train()
    assert "data.max_length" in e.value.hint
    assert seen[-1] == 1
    assert manyheads.storage.is_whole(tmp_path / "run" / "checkpoints" / "step-4")
    monkeypatch.undo()
    assert train(resume=True).steps == 8


SCRIPT = """
import resource, sys
import numpy as np
import manyheads
from manyheads.training import api

np.ones((512, 512)) @ np.ones((512, 512))  # OpenBLAS ends the process if it finds no room for its buffers later
fit = api.fit

def fit_in_little(*arguments):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[3]) * 2**20,) * 2)
    return fit(*arguments)

api.fit = fit_in_little
changes = {changes}
manyheads.train("tiny", train=sys.argv[1], out=sys.argv[2], changes=changes, device="cpu")
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_limit_on_memory(tmp_path):
    """A batch of all pairs takes some hundred megabytes; the process may have fewer."""
    data = write_pairs(tmp_path / "train.tsv", 8_000)
    changes = {**TINY, "train.tokens": 80_000, "train.steps": 2, "train.validate_every": 2, "train.validate_lines": 4}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(changes=changes), data, str(tmp_path / "run"), "400"],
        capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not enough memory for its batch at once" in done.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["split"] > 0


@pytest.mark.slow
def test_in_a_team_one_process_that_has_too_little_ends_all(tmp_path, data):
    """The other one waits for its gradients, in the middle of an exchange."""
    script = Path(__file__).parent / "faults.py"
    status, _, said = finish(torchrun(script, "short of memory", *data, tmp_path / "run", "false"))
    assert status == 1
    assert "got too little in process 1 at step 6: OutOfMemoryError" in said
    assert "--resume --set train.accumulate=2" in said
    assert manyheads.storage.is_whole(tmp_path / "run" / "checkpoints" / "step-4")


def test_a_team_rehearses_in_parts_too():
    """Where a whole share does not fit, it would end before it began."""
    seen = []

    def loss(model, part):
        seen.append(len(part.source))
        return model(torch.ones(1, 1)).sum()

    config = load_recipe("tiny", {"train.accumulate": 4, "train.ema": 0.0}).train
    state = State(torch.nn.Linear(1, 1), config, torch.device("cpu"))
    ids = torch.ones(12, 3, dtype=torch.long)
    steps.EagerSteps(state, config, CPU, loss).rehearse(PairBatch(ids, ids, ids, count=36))
    assert seen == [3, 3, 3, 3]
    assert all(p.grad is None for p in state.model.parameters())
