"""The fused update against AdamW, clipping and the moving average written down in double precision.

Without a GPU the kernels run in Triton's interpreter (conftest.py asks for it).
"""

import copy
import math

import pytest
import torch
from torch import nn

from manyheads.training.average import MovingAverage
from manyheads.training.capturable import TorchUpdate
from manyheads.training.optimizer import build_optimizer, optimizer_tensors, restore_optimizer, update

pytest.importorskip("triton")

from manyheads.training.fused_update import FusedUpdate, chunks
from manyheads.training.update_kernels import BLOCK

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.plain


class Odd(nn.Module):
    """Sizes on both sides of a block's, one that is no multiple of anything, a single number, and one that is frozen."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(BLOCK // 8, 8)
        self.matrix = nn.Parameter(torch.randn(43, 101))
        self.scale = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.randn(7))
        self.frozen = nn.Parameter(torch.randn(5, 3), requires_grad=False)
        self.to(DEVICE)


def give_gradients(model, step, size=1.0, without=()):
    generator = torch.Generator().manual_seed(step)
    for name, p in model.named_parameters():
        drawn = size * torch.randn(p.shape, generator=generator)
        if p.requires_grad and name not in without:
            p.grad = drawn.to(p.device, p.dtype)


def build(kind, average=True, clip=1.0):
    model = Odd()
    optimizer = build_optimizer(model, 0.0, 0.1)
    mean = MovingAverage(model, 0.99) if average else None
    return model, optimizer, mean, kind(optimizer, list(model.parameters()), mean, clip)


class InDoubles:
    """The oracle: torch's plain AdamW, clip_grad_norm_ and the formula of the average."""

    def __init__(self, model, clip):
        self.model, self.clip = copy.deepcopy(model).double(), clip
        self.optimizer = torch.optim.AdamW(
            [{"params": [self.model.matrix], "weight_decay": 0.1},
             {"params": [self.model.words.weight, self.model.scale, self.model.bias], "weight_decay": 0.0}],
            betas=(0.9, 0.98), eps=1e-9, foreach=False,
        )  # fmt: skip
        self.averages = {name: p.detach().clone() for name, p in self.model.named_parameters()}

    def step(self, step, rate):
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip or math.inf)
        if norm.isfinite():
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        self.optimizer.zero_grad()
        decay = min(0.99, (1 + step) / (10 + step))
        for name, p in self.model.named_parameters():
            self.averages[name] = decay * self.averages[name] + (1 - decay) * p.detach()
        return norm


def rate_of(step):
    return 1e-3 * (1 + step % 7)


def relative(ours, expected):
    return ((ours.double() - expected).norm() / expected.norm()).item()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FusedUpdate, TorchUpdate])
@pytest.mark.parametrize("clip", [1.0, 0.0])
def test_fifty_steps_are_those_of_double_precision(kind, clip):
    model, optimizer, average, advance = build(kind, clip=clip)
    oracle = InDoubles(model, clip)
    for step in range(1, 51):
        size = 1e-3 if step % 3 else 10.0  # some are clipped, some are not
        give_gradients(model, step, size)
        give_gradients(oracle.model, step, size)
        if step == 20:
            model.matrix.grad[3, 4] = oracle.model.matrix.grad[3, 4] = float("nan")
        advance.set(step, rate_of(step))
        norm, skipped = advance()
        expected = oracle.step(step, rate_of(step))
        assert skipped == float(step == 20)
        if step != 20:
            assert norm.item() == pytest.approx(expected.item(), rel=1e-6)
    for name, p in oracle.model.named_parameters():
        assert relative(model.get_parameter(name), p) < 1e-6
        assert relative(average.weights[name], oracle.averages[name]) < 1e-6
    for p, other in zip(
        oracle.optimizer.state, (model.matrix, model.words.weight, model.scale, model.bias), strict=True
    ):
        assert relative(optimizer.state[other]["exp_avg"], oracle.optimizer.state[p]["exp_avg"]) < 1e-6
        assert relative(optimizer.state[other]["exp_avg_sq"], oracle.optimizer.state[p]["exp_avg_sq"]) < 1e-6
        assert optimizer.state[other]["step"] == 49


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_only_the_average_moves_if_a_gradient_is_not_finite(bad):
    model, optimizer, average, advance = build(FusedUpdate)
    for step in (1, 2):
        give_gradients(model, step)
        advance.set(step, 0.01)
        advance()
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    state = {name: t.clone() for name, t in optimizer_tensors(optimizer, model).items()}
    twin = copy.deepcopy(average)
    give_gradients(model, 3)
    model.scale.grad.fill_(bad)
    advance.set(3, 0.01)
    _, skipped = advance()
    assert skipped == 1
    assert all(torch.equal(weights[name], p) for name, p in model.named_parameters())
    assert all(torch.equal(state[name], t) for name, t in optimizer_tensors(optimizer, model).items())
    twin.update(3)  # as the loop does in such a step without this kernel
    for name, mean in average.weights.items():
        torch.testing.assert_close(mean, twin.weights[name], rtol=1e-6, atol=1e-7)


def test_a_rerun_gives_the_same_bits():
    ends = []
    for _ in range(2):
        model, _, average, advance = build(FusedUpdate)
        for step in (1, 2, 3):
            give_gradients(model, step, 5.0)
            advance.set(step, 0.01)
            advance()
        ends.append([*model.parameters(), *average.mine])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_a_run_saved_by_one_goes_on_with_the_other():
    """Fused, then as on the CPU, then fused again: as fused all along."""
    model, optimizer, average, advance = build(FusedUpdate)
    peer, other, mean, fused = build(FusedUpdate)
    for step in range(1, 10):
        if step == 4:
            stored = {name: t.clone() for name, t in optimizer_tensors(other, peer).items()}
            other = build_optimizer(peer, 0.0, 0.1)
            restore_optimizer(other, peer, stored)
        if step == 7:
            fused = FusedUpdate(other, list(peer.parameters()), mean, 1.0)
        give_gradients(model, step)
        give_gradients(peer, step)
        advance.set(step, rate_of(step))
        advance()
        if 4 <= step < 7:
            update(other, list(peer.parameters()), rate_of(step), 1.0)
            mean.update(step)
        else:
            fused.set(step, rate_of(step))
            fused()
    for ours, theirs in zip([*model.parameters(), *average.mine], [*peer.parameters(), *mean.mine], strict=True):
        assert relative(theirs.detach(), ours.detach().double()) < 1e-6
    assert {name: t.shape for name, t in optimizer_tensors(optimizer, model).items()} == {
        name: t.shape for name, t in optimizer_tensors(other, peer).items()
    }


def test_a_parameter_without_gradient_stays_as_it_is():
    model, optimizer, _, advance = build(FusedUpdate)
    before = model.bias.detach().clone()
    for step in (1, 2):
        give_gradients(model, step, without=["bias"] if step == 1 else [])
        advance.set(step, 0.01)
        advance()
        assert torch.equal(model.bias, before) == (step == 1)
    assert [optimizer.state[p]["step"].item() for p in (model.bias, model.matrix)] == [1, 2]


def test_without_an_average_nothing_else_changes():
    ends = []
    for average in (True, False):
        model, _, _, advance = build(FusedUpdate, average=average)
        give_gradients(model, 1)
        advance.set(1, 0.01)
        advance()
        ends.append(list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_gradients_may_lie_anywhere():
    """In a part of something larger, at an address that is no multiple of 16."""
    ends = []
    for shift in (0, 1):
        model, _, _, advance = build(FusedUpdate)
        give_gradients(model, 1)
        room = torch.zeros(model.matrix.numel() + shift, device=DEVICE)
        model.matrix.grad = room[shift:].copy_(model.matrix.grad.flatten()).view_as(model.matrix)
        advance.set(1, 0.01)
        advance()
        ends.append(list(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_chunks_cover_every_element_once():
    sizes = [1, BLOCK, BLOCK + 1, 5 * BLOCK - 1]
    owners, starts = chunks(sizes)
    seen = [set() for _ in sizes]
    for owner, start in zip(owners.tolist(), starts.tolist(), strict=True):
        seen[owner].update(range(start, min(start + BLOCK, sizes[owner])))
    assert [len(s) for s in seen] == sizes
    assert len(owners) == 1 + 1 + 2 + 5
