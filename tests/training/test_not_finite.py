"""Numbers that are not finite: nothing is learnt from them, and it is written down where they came from."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import manyheads
from manyheads.errors import TrainingError
from manyheads.machine import Machine
from manyheads.models.transformer import Transformer
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.pairs import PairBatch
from manyheads.tasks.translate import Task
from manyheads.training import steps
from manyheads.training.examine import find_not_finite
from manyheads.training.state import read_tensors
from manyheads.training.steps import EagerSteps
from training.corpus import TINY, write_pairs
from training.test_processes import finish, torchrun

CPU = Machine(torch.device("cpu"), "fp32")
NAN = float("nan")


# ── where ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def model_and_batch(**changes):
    small = {"model.layers": 2, "model.width": 32, "model.heads": 2, "model.feedforward": 64}
    recipe = manyheads.load_recipe("tiny", small | changes)
    ids = torch.randint(3, 20, (4, 6))
    return Transformer(recipe.model, (20, 20)), choose_loss(recipe.train), PairBatch(ids, ids, ids, 24)


KINDS = [
    {},
    {"model.norm": "post", "model.positions": "learned", "model.tie": "none"},
    {"model.positions": "rotary", "model.qk_norm": True, "model.cross": "same", "train.rdrop": 1.0},
]


@pytest.mark.parametrize("changes", KINDS)
def test_in_a_model_that_is_well_nothing_is_found(changes):
    model, loss, batch = model_and_batch(**changes)
    assert find_not_finite(model, loss, batch.split(2), CPU) is None
    assert all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("changes", KINDS)
@pytest.mark.parametrize("bad", [NAN, float("inf")])
def test_one_bad_weight_is_found_in_its_module(changes, bad):
    """Each matrix in turn, by one number; of tables, all rows: not every word is in a batch."""
    model, loss, batch = model_and_batch(**changes)
    for name, weight in model.named_parameters():
        owner = name.rpartition(".")[0]
        before, table = weight.detach().clone(), isinstance(model.get_submodule(owner), nn.Embedding)
        with torch.no_grad():
            (weight if table else weight.view(-1)[:1]).fill_(bad)
        found = find_not_finite(model, loss, [batch], CPU)
        with torch.no_grad():
            weight.copy_(before)
        # Two are read by others than the module that they belong to: first by the attention, first by the model.
        read_by = owner.removesuffix("input") if owner.endswith("cross.input") else owner
        assert found.startswith("Transformer" if owner == "head" else read_by), (name, found)
    assert find_not_finite(model, loss, [batch], CPU) is None


def test_one_bad_word_is_found_where_it_is_read():
    model, loss, batch = model_and_batch()
    with torch.no_grad():
        model.words.weight[batch.source[2, 1]] = NAN
    assert find_not_finite(model, loss, [batch], CPU) == "words"
    others = [part for n, part in enumerate(batch.split(4)) if n != 2]
    assert find_not_finite(model, loss, others, CPU) == "Transformer"  # which compares with all words


def test_a_loss_that_is_not_finite_is_no_module_s_fault():
    model, loss, batch = model_and_batch()
    assert find_not_finite(model, lambda model, batch: loss(model, batch) / 0, [batch], CPU) == "loss"


def test_a_gradient_that_is_not_finite_is_found_though_the_loss_is():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))

    def loss(model, batch):
        return model(batch).sum() + (model[1].weight * 0).sum().sqrt()  # whose derivative at 0 is not finite

    assert loss(model, torch.ones(3, 2)).isfinite()
    assert find_not_finite(model, loss, [torch.ones(3, 2)], CPU) == "gradient of 1.weight"
    assert find_not_finite(model, loss, [torch.ones(3, 2)], CPU, backward=False) is None


def test_a_norm_that_overflows_is_found_though_every_gradient_is_finite():
    model = nn.Linear(1, 2)
    assert (
        find_not_finite(model, lambda model, x: model(x).sum() * 1e30, [torch.ones(1, 1)], CPU)
        == "norm of the gradient"
    )
    assert find_not_finite(model, lambda model, x: model(x).sum() * 1e15, [torch.ones(1, 1)], CPU) is None


# ── in a run ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def train(tmp_path):
    """Pairs stand in line 3 and after; one in the middle has a letter of its own."""
    write_pairs(tmp_path / "some.tsv", 300)
    lines = (tmp_path / "some.tsv").read_text().splitlines()
    lines[99] = "zzz\tabc"
    (tmp_path / "train.tsv").write_text("\n".join(["\t", "a\t", *lines]) + "\n")
    write_pairs(tmp_path / "dev.tsv", 20, seed=1)

    def train(resume=False, **changes):
        changes = {**TINY, "data.target_tokenizer": "characters", "model.tie": "target", "train.steps": 40,
                   "train.validate_every": 20, **changes}  # fmt: skip
        train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
        return manyheads.train(
            "tiny", train=train, dev=dev, out=tmp_path / "run", changes=changes, resume=resume, device="cpu"
        )

    return train


def events(run, kind):
    return [e for e in map(json.loads, (run / "log.jsonl").read_text().splitlines()) if e["event"] == kind]


def watched(monkeypatch, change):
    """Batches by step. `change` is told the step, the model and the batch, and gives a factor; there is no step while a batch is only
    looked at again."""
    loss, learn, seen, now = Task.loss, EagerSteps.__call__, {}, []

    def note(self, batch, step, rate):
        seen[step] = batch
        now.append(step)
        report = learn(self, batch, step, rate)
        now.clear()
        return report

    def changed(self, model, batch):
        factor = change(now[0] if now else None, model, batch)
        return loss(self, model, batch) * (1 if factor is None else factor)

    monkeypatch.setattr(EagerSteps, "__call__", note)
    monkeypatch.setattr(Task, "loss", changed)
    monkeypatch.setattr(Task, "fused_loss", lambda self: self.loss)
    return seen


def texts(path, numbers):
    lines = path.read_bytes().split(b"\n")
    return sorted(lines[n - 1].decode().split("\t")[0] for n in numbers)


def decoded(run, batch):
    vocabulary = manyheads.Translator.load(run, "cpu").vocabulary
    return sorted(vocabulary.source.decode([i for i in row.tolist() if i > 2]) for row in batch.source)


def spoil_at(when, spoil):
    def change(step, model, batch):
        if step == when:
            with torch.no_grad():
                spoil(model)

    return change


def test_one_bad_weight_ends_the_run_at_once_with_the_last_save_as_it_was(tmp_path, train, monkeypatch):
    def spoil(model):
        model.decoder.blocks[0].feedforward.up.weight[3, 4] = NAN

    watched(monkeypatch, spoil_at(6, spoil))
    with pytest.raises(TrainingError) as caught:
        train(**{"train.validate_every": 4})
    bad = "decoder.blocks.0.feedforward.up"
    said = f"weights must be finite, got NaN or infinity in {bad}.weight at step 8: the gradient was not finite, first in {bad}, at step 6 with "
    assert caught.value.message.startswith(f"{said}{tmp_path}/train.tsv, lines ")
    assert caught.value.message.endswith(" more")
    (event,) = events(tmp_path / "run", "not_finite")
    assert (event["step"], event["module"]) == (6, bad)
    (newest,) = (tmp_path / "run" / "checkpoints").iterdir()
    assert newest.name == "step-4"
    assert all(t.isfinite().all() for t in read_tensors(newest, "weights.safetensors").values())
    monkeypatch.undo()
    assert train(resume=True, **{"train.validate_every": 4}).steps == 40


def test_weights_that_an_update_made_so_are_not_saved(tmp_path, train, monkeypatch):
    """The gradient of the last step before a save is finite, and what comes of it is not."""
    update, calls = steps.update, []

    def overflow(optimizer, parameters, rate, clip):
        report = update(optimizer, parameters, rate, clip)
        calls.append(1)
        if len(calls) == 8:
            parameters[-1].detach().view(-1)[0] = float("inf")
        return report

    monkeypatch.setattr(steps, "update", overflow)
    with pytest.raises(
        TrainingError, match=r"weights must be finite, got NaN or infinity in decoder\.norm\.bias at step 8\n"
    ):
        train(**{"train.validate_every": 100, "train.save_every": 4})
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-4"]


def test_one_bad_word_is_named_with_the_lines_of_the_first_batch_that_has_it(tmp_path, train, monkeypatch):
    """Others read no such word, and are learnt from."""
    before = train(**{"train.steps": 1})
    ((word,),) = manyheads.Translator.load(before.folder, "cpu").vocabulary.source.encode(["z"])
    before.folder.rename(tmp_path / "before")
    seen = watched(monkeypatch, spoil_at(1, lambda model: model.words.weight[word].fill_(NAN)))
    with pytest.raises(
        TrainingError, match=r"got NaN or infinity in words.weight at step \d+: .* first in words, at step "
    ):
        train()
    (event,) = events(tmp_path / "run", "not_finite")
    first = next(step for step, batch in seen.items() if (batch.source == word).any())
    assert event["step"] == first > 1
    (lines,) = event["lines"].values()
    assert 102 in lines
    assert texts(tmp_path / "train.tsv", lines) == decoded(tmp_path / "before", seen[first])


def test_many_in_a_row_end_the_run_and_the_last_is_named(tmp_path, train, monkeypatch):
    watched(monkeypatch, lambda step, model, batch: NAN if (step or 99) > 5 else 1)
    with pytest.raises(TrainingError) as caught:
        train(**{"train.steps": 100, "train.validate_every": 100})
    where = f"first in loss, at step 30 with {tmp_path}/train.tsv, lines "
    assert f"not finite 25 times in a row before step 30, {where}" in caught.value.message
    assert f"details in {tmp_path}/run/log.jsonl" in caught.value.hint
    assert [e["step"] for e in events(tmp_path / "run", "not_finite")] == list(range(6, 31))


def test_a_few_at_the_start_are_not_the_end(tmp_path, train, monkeypatch, capsys):
    """What a loss began at is a number."""
    watched(monkeypatch, lambda step, model, batch: NAN if step in (1, 2, 12, 21) else 1)
    train()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["not_finite"] == 4
    assert all(e["loss"] is not None for e in events(tmp_path / "run", "step"))
    said = capsys.readouterr().err
    assert said.count("the gradient was not finite") == 1
    assert "during training: 4 × update skipped (gradient not finite)" in said


def test_one_bad_batch_is_named(tmp_path, train, monkeypatch):
    """Bad by itself: whoever computes it again finds the same."""
    bad = []

    def spoil(step, model, batch):
        if step == 4:
            bad.append(batch.pairs.tolist())
        return NAN if batch.pairs.tolist() in bad else 1

    seen = watched(monkeypatch, spoil)
    train(**{"train.steps": 8})
    (event,) = events(tmp_path / "run", "not_finite")
    assert (event["step"], event["module"]) == (4, "loss")
    ((name, lines),) = event["lines"].items()
    assert name == str(tmp_path / "train.tsv")
    assert texts(tmp_path / "train.tsv", lines) == decoded(tmp_path / "run", seen[4])


def test_what_does_not_happen_again_is_said_to_be_so(tmp_path, train, monkeypatch, capsys):
    """A flipped bit, say."""
    watched(monkeypatch, lambda step, model, batch: NAN if step == 4 else 1)
    train(**{"train.steps": 8})
    (event,) = events(tmp_path / "run", "not_finite")
    assert (event["step"], event["module"]) == (4, None)
    assert "not finite, origin unknown, at step 4 with " in capsys.readouterr().err


def test_looking_into_it_changes_nothing(tmp_path, train, monkeypatch):
    """A run with a bad batch ends with the same bytes whether it is looked into or not."""
    from manyheads.training import watch

    models = []
    for examine in (watch.examine, lambda *_: None):
        monkeypatch.setattr(watch, "examine", examine)
        with monkeypatch.context() as patch:
            watched(patch, lambda step, model, batch: NAN if step == 4 else 1)
            train(**{"train.steps": 20, "model.dropout": 0.1})
        models.append((tmp_path / "run" / "model.safetensors").read_bytes())
        (tmp_path / "run").rename(tmp_path / f"run{len(models)}")
    assert models[0] == models[1]


@pytest.mark.slow
@pytest.mark.parametrize("shard", ["false", "true"])
def test_in_a_team_the_lines_are_those_of_the_share_that_is_to_blame(tmp_path, shard):
    data = write_pairs(tmp_path / "train.tsv", 300), write_pairs(tmp_path / "dev.tsv", 20, seed=1)
    script = Path(__file__).parent / "faults.py"
    status, _, said = finish(torchrun(script, "not finite", *data, tmp_path / "run", shard))
    assert status == 0, said
    (event,) = events(tmp_path / "run", "not_finite")
    assert (event["step"], event["module"]) == (6, "loss")
    (lines,) = event["lines"].values()
    recipe = manyheads.load_recipe(tmp_path / "run" / "recipe.toml")
    task = Task.prepare(recipe, tmp_path / "data", dict(zip(("train", "dev"), data, strict=True)), {}, lambda _: None)
    assert [line - 1 for line in lines] == sorted(task.plan.rows(5)[1::2])
    assert said.count("the gradient was not finite, first in loss, at step 6") == 1
