"""The loop, driven by a task that fits on a screen: one weight, losses and scores by script, every batch written down."""

import json
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import load as load_tensors
from torch import nn

from manyheads.errors import TrainingError
from manyheads.machine import Machine
from manyheads.recipe import TrainConfig
from manyheads.storage import read_file
from manyheads.tasks.task import Validation
from manyheads.team import ALONE
from manyheads.training import overdue
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.log import Log
from manyheads.training.loop import fit, warmup_of
from manyheads.training.run import Run
from manyheads.training.session import Session
from manyheads.training.show import Show
from manyheads.training.signals import StopRequest
from manyheads.training.state import State
from manyheads.training.steps import EagerSteps

CPU = Machine(torch.device("cpu"), "fp32")


@dataclass
class Numbers:
    """A batch: numbers that the weight should be like. A part of it carries its own count."""

    values: torch.Tensor
    step: int

    @property
    def count(self):
        return len(self.values)

    tokens = count

    def to(self, device):
        return self

    def split(self, parts):
        return [Numbers(values, self.step) for values in self.values.chunk(parts)]


class Script:
    """Scores come from a list, one a validation; what was trained and judged is written down."""

    batches_per_epoch = 5

    def __init__(self, scores=(), target=3.0, blow_up_at=None, losses=()):
        self.scores, self.target, self.blow_up_at, self.losses = list(scores), target, blow_up_at, losses
        self.trained, self.judged = [], []

    def build(self):
        return nn.Linear(1, 1, bias=False)

    def batch(self, step, team):
        return Numbers(torch.full((4,), self.target) + step % 2, step)

    def loss(self, model, batch):
        self.trained.append(batch.step)
        loss = (model(torch.ones(batch.count, 1))[:, 0] - batch.values).square().sum()
        return loss * (1e6 if self.blow_up_at is not None and batch.step >= self.blow_up_at else 1)

    def fused_loss(self):
        return self.loss

    def example(self):
        return None

    def validate(self, model, *, final=False, on="dev", team):
        self.judged.append(model.weight.item())
        turn = len(self.judged) - 1
        loss = self.losses[turn] if self.losses else 1.0
        return Validation(self.scores[turn] if self.scores else 0.0, {"loss": loss})


def run_loop(tmp_path, task, state=None, stop=None, **options):
    config = TrainConfig(**{"steps": 8, "validate_every": 2, "warmup": 0, "rate": 0.1, **options})
    run = Run(tmp_path)
    if state is None:
        torch.manual_seed(0)
        state = State(task.build(), config, CPU.device)
        tmp_path.mkdir(exist_ok=True)
        (tmp_path / "recipe.toml").write_text("")
        from manyheads.storage import publish

        publish(tmp_path, {"recipe.toml": b""})
    with Show(quiet=True) as show:
        ending = fit(Session(task, state, config, CPU, ALONE, run, Log(run.log, show.say), show), stop or StopRequest())
    return ending, state


def published(tmp_path):
    return load_tensors(read_file(tmp_path, "model.safetensors"))["weight"].item()


def saved(tmp_path):
    return [int(path.name.split("-")[1]) for path in Checkpoints(tmp_path / "checkpoints", print).steps()]


def saves(tmp_path):
    events = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    return [event["step"] for event in events if event["event"] == "save"]


def test_every_batch_once_and_in_order(tmp_path):
    task = Script()
    ending, state = run_loop(tmp_path, task)
    assert task.trained == list(range(8))
    assert ending.reason == "finished"
    assert state.progress.tokens == 8 * 4


def test_the_best_model_is_the_one_that_is_published(tmp_path):
    task = Script(scores=[1, 5, 4, 2])
    _, state = run_loop(tmp_path, task)
    assert published(tmp_path) == task.judged[1]
    assert state.progress.best_step == 4
    assert len(set(task.judged)) == 4


def test_of_equals_the_later_one_is_published(tmp_path):
    task = Script(scores=[1, 5, 5, 2])
    _, state = run_loop(tmp_path, task)
    assert published(tmp_path) == task.judged[2]
    assert state.progress.waited == 2  # as good is not better


def test_of_equals_none_is_published_whose_loss_has_risen(tmp_path):
    """A task that is learnt has the highest score for ever, while the loss begins to rise."""
    task = Script(scores=[1, 5, 5, 5], losses=[0.3, 0.2, 0.1, 0.2])
    _, state = run_loop(tmp_path, task)
    assert published(tmp_path) == task.judged[2]
    assert state.progress.best_step == 6
    assert state.progress.waited == 1


def test_the_moving_average_is_judged_and_published(tmp_path):
    task = Script(scores=[1, 2, 3, 4])
    _, state = run_loop(tmp_path, task, ema=0.9)
    average, last = state.average.weights["weight"].item(), state.model.weight.item()
    assert average != last
    assert task.judged[-1] == average
    assert published(tmp_path) == average


def test_patience_starts_again_with_a_better_score(tmp_path):
    task = Script(scores=[3, 2, 4, 1, 1, 9])
    ending, state = run_loop(tmp_path, task, steps=100, patience=2)
    assert ending.reason == "patience"
    assert state.progress.step == 10


def test_who_has_lost_patience_does_not_go_on(tmp_path):
    task = Script(scores=[3, 2, 1, 9, 9, 9])
    ending, state = run_loop(tmp_path, task, steps=100, patience=2)
    again, _ = run_loop(tmp_path, task, state=state, steps=100, patience=2)
    assert (ending.reason, again.reason) == ("patience", "patience")
    assert task.trained == list(range(6))


def test_who_has_done_all_steps_has_not_lost_patience(tmp_path):
    task = Script(scores=[3, 2, 1, 9])
    ending, state = run_loop(tmp_path, task, steps=6, patience=2)
    assert (ending.reason, state.progress.step, state.progress.waited) == ("finished", 6, 2)
    again, _ = run_loop(tmp_path, task, state=state, steps=6, patience=2)
    assert again.reason == "finished"


def test_a_score_that_is_no_number_is_no_score(tmp_path):
    task = Script(scores=[float("nan"), 1, 3, 2])
    run_loop(tmp_path, task)
    assert published(tmp_path) == task.judged[2]


def test_a_stop_saves_where_it_is(tmp_path):
    stop, task = StopRequest(), Script()
    loss = task.loss

    def stopping(model, batch):
        stop.number = 15 if batch.step == 4 else stop.number
        return loss(model, batch)

    task.loss = stopping
    ending, _ = run_loop(tmp_path, task, stop=stop)
    assert (ending.reason, ending.number) == ("stopped", 15)
    assert saved(tmp_path)[0] == 5


def test_the_mean_of_the_last_checkpoints_is_published(tmp_path):
    task = Script(scores=[1, 1, 1, 1, 1])
    run_loop(tmp_path, task, average=3, save_every=2)
    assert published(tmp_path) == pytest.approx(sum(task.judged[1:4]) / 3, rel=1e-6)
    assert published(tmp_path) == task.judged[4]


def test_a_mean_that_is_worse_is_not(tmp_path):
    task = Script(scores=[1, 1, 1, 2, 1])
    run_loop(tmp_path, task, average=3, save_every=2)
    assert published(tmp_path) == task.judged[3]


def minute_by_minute(task, monkeypatch):
    """Every step takes a minute."""
    now, loss = [1000.0], task.loss

    def slow(model, batch):
        now[0] += 60
        return loss(model, batch)

    task.loss = slow
    monkeypatch.setattr(overdue.time, "monotonic", lambda: now[0])
    return task


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [(4.5, [5, 10, 12]), (100, [12]), (0, [12]), (0.1, [3, 6, 9, 12])],
    ids=["in time", "soon enough", "never", "not at every step"],
)
def test_work_of_some_minutes_is_saved_out_of_turn(tmp_path, monkeypatch, minutes, expected):
    run_loop(tmp_path, minute_by_minute(Script(), monkeypatch), steps=12, validate_every=50, save_minutes=minutes)
    assert saves(tmp_path) == expected


def test_the_minutes_count_from_any_save(tmp_path, monkeypatch):
    task = minute_by_minute(Script(), monkeypatch)
    run_loop(tmp_path, task, steps=12, validate_every=50, save_every=4, save_minutes=5.5)
    assert saves(tmp_path) == [4, 8, 12]


def test_what_was_saved_out_of_turn_is_not_in_the_mean(tmp_path, monkeypatch):
    means = []
    for minutes in (0, 2.5):
        task = minute_by_minute(Script(), monkeypatch)
        run_loop(
            tmp_path / str(minutes), task, steps=16, validate_every=16, save_every=4, average=3, save_minutes=minutes
        )
        means.append(published(tmp_path / str(minutes)))
    assert saves(tmp_path / "2.5") == [3, 4, 7, 8, 11, 12, 15, 16, 16]
    assert means[0] == means[1]


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_parts_of_a_batch_make_the_same_update(parts):
    """The batch has 7 numbers: the parts are unequal, and each knows only its own count."""
    weights = []
    for accumulate in (1, parts):
        torch.manual_seed(0)
        task = Script()
        config = TrainConfig(accumulate=accumulate, clip=0.0)
        state = State(task.build().double(), config, CPU.device)
        batch = Numbers(torch.arange(7.0, dtype=torch.float64), 0)
        task.loss = lambda model, part: (model(torch.ones(part.count, 1).double())[:, 0] - part.values).square().sum()
        grads = []
        state.model.weight.register_post_accumulate_grad_hook(lambda p, grads=grads: grads.append(p.grad.clone()))
        EagerSteps(state, config, CPU, task.loss)(batch, 1, 0.1)
        assert len(grads) == accumulate
        weights.append(grads[-1].item())
    assert weights[0] == pytest.approx(weights[1], rel=1e-12)


def test_rate_and_clip_reach_the_optimizer(tmp_path, monkeypatch):
    seen = []
    from manyheads.training import steps

    real = steps.update

    def update(optimizer, parameters, rate, clip):
        seen.append((rate, clip))
        return real(optimizer, parameters, rate, clip)

    monkeypatch.setattr(steps, "update", update)
    run_loop(tmp_path, Script(), steps=20, warmup=2, schedule="stable-decay", rate=0.5, clip=0.25)
    rates, clips = zip(*seen, strict=True)
    assert rates[:2] == (0.25, 0.5)
    assert rates[15:] == pytest.approx((0.5, 0.375, 0.25, 0.125, 0.0))
    assert set(clips) == {0.25}


def test_a_warm_up_is_a_tenth_of_the_run_at_most():
    assert warmup_of(TrainConfig(warmup=4_000), 100_000) == 4_000
    assert warmup_of(TrainConfig(warmup=4_000), 1_000) == 100
    assert warmup_of(TrainConfig(warmup=4_000), 3) == 1
    assert warmup_of(TrainConfig(warmup=0), 1_000) == 0


def test_a_loss_that_stays_far_above_its_beginning_ends_the_run(tmp_path):
    task = Script(blow_up_at=20)
    with pytest.raises(TrainingError, match=r"diverged: at step 50 the loss is .*, it started at"):
        run_loop(tmp_path, task, steps=200, validate_every=10, clip=1.0)
    assert saved(tmp_path)[0] == 40


def test_old_checkpoints_go_and_damaged_ones_are_not_counted(tmp_path):
    _, state = run_loop(tmp_path, Script(), save_every=2)
    assert saved(tmp_path) == [8, 6]
    for step in (6, 8):
        (tmp_path / "checkpoints" / f"step-{step}" / "weights.safetensors").write_bytes(b"")
    (tmp_path / "checkpoints" / ".step-9.writing").mkdir()
    state.progress.step = 5
    Checkpoints(tmp_path / "checkpoints", print, every=2, keep=2).save(state.progress.step, state.contents())
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-5"]
    state.progress.step = 6
    Checkpoints(tmp_path / "checkpoints", print, every=2, keep=2).save(state.progress.step, state.contents())
    assert saved(tmp_path) == [6]  # 5 was saved out of turn
