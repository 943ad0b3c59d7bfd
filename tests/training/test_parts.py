"""The parts of the loop, each against its formula."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from manyheads.training.average import MovingAverage, mean_weights
from manyheads.training.optimizer import build_optimizer, optimizer_tensors, restore_optimizer, update
from manyheads.training.prefetch import prefetch
from manyheads.training.schedule import rate_at


@given(st.integers(1, 10_000), st.integers(0, 5_000), st.sampled_from(["inverse-sqrt", "cosine", "stable-decay"]))
def test_the_rate_rises_to_1_and_never_above(step, warmup, schedule):
    share = rate_at(step, schedule=schedule, warmup=warmup, steps=10_000)
    assert 0 <= share <= 1
    if step < warmup:
        assert share == step / warmup


def test_the_paper_s_schedule():
    """d^−0.5 · min(n^−0.5, n · warmup^−1.5), as a share of its peak."""
    for step in (1, 100, 4_000, 5_000, 100_000):
        paper = min(step**-0.5, step * 4_000**-1.5) / 4_000**-0.5
        assert math.isclose(rate_at(step, schedule="inverse-sqrt", warmup=4_000, steps=100_000), paper)


def test_cosine_and_stable_decay_end_at_0():
    for schedule in ("cosine", "stable-decay"):
        assert rate_at(1_000, schedule=schedule, warmup=100, steps=1_000) == pytest.approx(0)
        assert rate_at(100, schedule=schedule, warmup=100, steps=1_000) == 1
    assert rate_at(550, schedule="cosine", warmup=100, steps=1_000) == pytest.approx(0.5)
    assert rate_at(799, schedule="stable-decay", warmup=100, steps=1_000) == 1
    assert rate_at(900, schedule="stable-decay", warmup=100, steps=1_000) == pytest.approx(0.5)


def small_model():
    return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))


def learn(model, optimizer, steps=3):
    for n in range(steps):
        model(torch.arange(5)).square().sum().mul(n + 1).backward()
        update(optimizer, list(model.parameters()), 0.01, 1.0)


def test_the_moving_average_is_its_formula():
    model = small_model()
    average = MovingAverage(model, 0.9)
    expected = model[1].weight.detach().clone()
    for step in range(1, 30):
        with torch.no_grad():
            model[1].weight.add_(torch.randn(4, 4))
        average.update(step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model[1].weight
    torch.testing.assert_close(average.weights["1.weight"], expected)


def test_the_mean_of_weights():
    sets = [{"a": torch.full((2,), float(n))} for n in (1, 2, 6)]
    assert torch.equal(mean_weights(sets)["a"], torch.full((2,), 3.0))


def test_only_matrices_decay():
    model = small_model()
    groups = build_optimizer(model, 0.1, 0.5).param_groups
    assert [g["weight_decay"] for g in groups] == [0.5, 0.0]
    assert groups[0]["params"] == [model[1].weight]


def test_an_optimizer_that_was_saved_goes_on_as_if_nothing_had_been():
    model = small_model()
    optimizer = build_optimizer(model, 0.1, 0.5)
    learn(model, optimizer)
    twin = copy.deepcopy(model)
    other = build_optimizer(twin, 0.1, 0.5)
    restore_optimizer(other, twin, {name: t.clone() for name, t in optimizer_tensors(optimizer, model).items()})
    learn(model, optimizer)
    learn(twin, other)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_an_update_is_adam_s():
    model = nn.Linear(3, 3)
    peer = copy.deepcopy(model)
    optimizer = build_optimizer(model, 0.1, 0.3)
    torch_s = torch.optim.AdamW(
        [{"params": [peer.weight], "weight_decay": 0.3}, {"params": [peer.bias], "weight_decay": 0.0}],
        lr=0.01, betas=(0.9, 0.98), eps=1e-9,
    )  # fmt: skip
    x = torch.randn(7, 3)
    for _ in range(5):
        for one in (model, peer):
            one(x).square().sum().backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        torch_s.step()
        torch_s.zero_grad()
        update(optimizer, list(model.parameters()), 0.01, 1.0)
    torch.testing.assert_close(model.weight, peer.weight)
    torch.testing.assert_close(model.bias, peer.bias)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nothing_changes_if_a_gradient_is_not_finite(bad):
    model = small_model()
    optimizer = build_optimizer(model, 0.1, 0.5)
    learn(model, optimizer)
    before = [p.detach().clone() for p in model.parameters()]
    state = {name: t.clone() for name, t in optimizer_tensors(optimizer, model).items()}
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    model[1].weight.grad[0, 0] = bad
    _, skipped = update(optimizer, list(model.parameters()), 0.01, 1.0)
    assert skipped == 1
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(torch.equal(state[name], t) for name, t in optimizer_tensors(optimizer, model).items())


def test_batches_come_in_order_and_errors_where_they_are_asked_for():
    assert list(prefetch(lambda n: n * n, 3, 50)) == [n * n for n in range(3, 50)]
    made = []

    def make(n):
        if n == 2:
            raise ValueError("batch 2")
        made.append(n)
        return n

    batches = prefetch(make, 0, 10)
    assert [next(batches), next(batches)] == [0, 1]
    with pytest.raises(ValueError, match="batch 2"):
        next(batches)
    assert made == [0, 1]


def test_who_leaves_early_leaves_no_worker_behind():
    """Not even one that is at work: what it works with may be gone next."""
    import threading

    before = threading.active_count()
    slowly = threading.Event()
    batches = prefetch(lambda n: slowly.wait(0.2 if n else 0) or n, 0, 1_000_000)
    next(batches)
    batches.close()
    assert threading.active_count() == before
