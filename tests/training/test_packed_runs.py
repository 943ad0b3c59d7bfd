"""A run whose batches are packs, wherever it goes on: the same pairs in the same order."""

import hashlib
import json

import numpy as np
import pytest
import torch

import manyheads
from manyheads import OptionError
from manyheads.machine import Machine
from manyheads.tasks.translate import Task
from manyheads.training import beginning
from manyheads.training.state import State
from manyheads.training.steps import EagerSteps
from training.corpus import TINY, write_pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return write_pairs(folder / "train.tsv", 400), write_pairs(folder / "dev.tsv", 20, seed=1)


def train(data, out, steps, recipe="tiny", **options):
    """With a rate that does not depend on how many steps there will be."""
    rate = {"train.warmup": 0, "train.schedule": "inverse-sqrt"}
    changes = {**TINY, **rate, "train.steps": steps, "train.validate_every": 10, "train.save_every": 5}
    return manyheads.train(
        recipe, train=data[0], dev=data[1], out=out, changes=changes, device="cpu", quiet=True, **options
    )


def pack_anyway(session):
    """What a GPU would decide."""
    session.task.arrange(packs=2)
    return 2


def sha256(out):
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


def test_a_packed_run_goes_on_with_packs_on_a_cpu(tmp_path, data, monkeypatch):
    monkeypatch.setattr(beginning, "pack", pack_anyway)
    train(data, tmp_path / "whole", 20)
    train(data, tmp_path / "halves", 10)
    monkeypatch.undo()  # from here on, a machine that would not have packed
    train(data, tmp_path / "halves", 20, recipe=None, resume=True)  # the recipe is the run's own
    train(data, tmp_path / "padded", 20)
    assert sha256(tmp_path / "halves") == sha256(tmp_path / "whole") != sha256(tmp_path / "padded")
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert summary["compile_seconds"] == 0


def test_packs_that_are_asked_for_where_there_are_none_are_refused(tmp_path, data):
    with pytest.raises(OptionError, match=r"train.fast = 'on' needs one GPU in bf16.*got cpu"):
        manyheads.train(
            "tiny", train=data[0], dev=data[1], out=tmp_path / "run", device="cpu", quiet=True,
            changes={**TINY, "train.fast": "on"},
        )  # fmt: skip


def prepare(tmp_path, data, **changes):
    recipe = manyheads.load_recipe("tiny", {**TINY, "model.dropout": 0.0, **changes})
    task = Task.prepare(recipe, tmp_path, {"train": data[0], "dev": data[1]}, {}, lambda _: None)
    task.arrange(packs=recipe.train.accumulate)
    return task, recipe.train


@pytest.mark.parametrize("parts", [1, 3])
def test_the_padded_batch_of_a_step_has_the_pairs_of_its_packs(tmp_path, data, parts):
    task, _ = prepare(tmp_path, data, **{"train.accumulate": parts, "train.tokens": 300})
    for step in range(2 * task.batches_per_epoch):
        packs, padded = task.packs(step), task.batch(step)
        assert len(packs.parts) == parts
        assert packs.count == padded.count
        tokens = np.sort(torch.cat([pack.labels for pack in packs.parts]).numpy())
        others = torch.cat([part.labels.flatten() for part in padded.parts]).numpy()
        assert tokens[tokens > 0].tolist() == np.sort(others[others > 0]).tolist()
        assert all(part.labels.numel() <= 320 for part in padded.parts)  # no pack is larger


@pytest.mark.parametrize("parts", [1, 2])
def test_packed_or_padded_an_update_is_the_same(tmp_path, data, parts):
    task, config = prepare(tmp_path, data, **{"train.accumulate": parts, "train.tokens": 300})
    weights = []
    for make in (task.packs, task.batch):
        torch.manual_seed(0)
        state = State(task.build().double(), config, torch.device("cpu"))
        learn = EagerSteps(state, config, Machine(torch.device("cpu"), "fp32"), task.loss)
        losses = [learn(make(step), step + 1, 1e-3)[0] for step in range(5)]
        weights.append([*losses, *state.model.parameters()])
    for packed, padded in zip(*weights, strict=True):
        torch.testing.assert_close(packed.double(), padded.double(), rtol=1e-5, atol=1e-7)


@pytest.fixture
def cut_anew(tmp_path, data):
    """A task with BPE-dropout."""
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"ab abc abcd {'abcde ' * (n % 5)}{n}\tde def defg {n}\n" for n in range(300)))
    changes = {"data.tokenizer": "bpe", "data.bpe_dropout": 0.5, "train.tokens": 200}
    return prepare(tmp_path / "data", (str(pairs), data[1]), **changes)[0]


def test_sentences_that_are_cut_anew_still_fit(cut_anew):
    """BPE-dropout makes them longer than planned: the last ones of a pack stay as they are stored."""
    task = cut_anew
    for step in range(2 * task.batches_per_epoch):
        pack = task.packs(step).parts[0]
        assert pack.source_offsets[len(task.plan.rows(step)[0])] <= len(pack.source)
        assert (pack.labels == 2).sum() == len(task.plan.rows(step)[0])


@pytest.mark.parametrize("packs", [0, 2])
def test_processes_cut_both_sides_at_the_same_time_and_as_we_do(cut_anew, monkeypatch, packs):
    cut_anew.arrange(packs)
    make = cut_anew.packs if packs else cut_anew.batch
    expected = [make(step) for step in range(3)]
    monkeypatch.setattr("manyheads.text.cutters.cores", lambda: 4)
    events = []

    def noted(side, cut):
        def begin(rows, epoch):
            later = cut(rows, epoch)
            events.append(f"{side} begins")
            return lambda: events.append(f"{side} is waited for") or later()

        return begin

    with cut_anew.hastened():
        cut_anew.sources.cut = noted("source", cut_anew.sources.cut)
        cut_anew.targets.cut = noted("target", cut_anew.targets.cut)
        found = [make(step) for step in range(3)]
    once = ["source begins", "target begins", "source is waited for", "target is waited for"]
    assert events == 3 * max(1, packs) * once
    for one, other in zip(found, expected, strict=True):
        for mine, theirs in zip(one.split(1), other.split(1), strict=True):
            assert all(map(torch.equal, mine.tensors(), theirs.tensors()))
