"""Judging a few tokens at a time gives the loss and the gradient of judging all of them at once."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyheads.recipe import load_recipe
from manyheads.tasks import pieces
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.pairs import PairBatch
from manyheads.tasks.teachers import Aimed, Teachers
from manyheads.text.tokenizer import PADDING

WORDS = 7
LOSSES = {"plain": {}, "not smoothed": {"train.smoothing": 0.0}, "simcut": {"train.simcut": 3.0}, "rdrop": {"train.rdrop": 5.0}}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Said(Teachers):
    """Teachers whose opinion is known."""

    aimed: Any = None

    def cost(self, pairs, smoothing):
        return Aimed(self.aimed)


def judged(loss, logits, batch, piece, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", piece)
    logits = logits.clone().requires_grad_()
    found = loss.judged(logits * 1, batch)
    (found / 3).backward()
    return found.detach(), logits.grad


@given(
    kind=st.sampled_from(sorted(LOSSES)), taught=st.booleans(), rows=st.integers(1, 5), length=st.integers(1, 6),
    tokens=st.integers(1, 9), seed=st.integers(0, 99), packed=st.booleans(),
)  # fmt: skip
def test_pieces_are_judged_as_the_whole(kind, taught, rows, length, tokens, seed, packed):
    with pytest.MonkeyPatch.context() as monkeypatch:
        torch.manual_seed(seed)
        loss = choose_loss(load_recipe("tiny", LOSSES[kind]).train)
        passes = 2 if kind in ("simcut", "rdrop") else 1
        labels = torch.randint(WORDS, (rows, length))
        if taught:
            aim = torch.randn(rows, length, WORDS, dtype=torch.float64).softmax(-1)
            loss = type(loss)(loss.predict, loss.judge, loss.terms, loss.smoothing, Said([], 0.5, aim))
        logits = torch.randn(passes * rows, length, WORDS, dtype=torch.float64)
        if packed:
            labels, logits = labels.flatten(), logits.flatten(0, 1)
        batch = PairBatch(labels, labels, labels, count=int((labels != PADDING).sum()))
        wanted, its_gradient = judged(loss, logits, batch, 10**9, monkeypatch)
        found, gradient = judged(loss, logits, batch, tokens * passes * WORDS, monkeypatch)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(gradient, its_gradient)
        with torch.no_grad():
            torch.testing.assert_close(loss.judged(logits, batch), wanted)


def judged_from(loss, states, table, bias, batch, share):
    given = [None if one is None else one.clone().requires_grad_() for one in (states, table, bias)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", share // 2)
        patch.setattr(pieces, "SHARE", share)
        with torch.no_grad():
            seen = loss.judged_from(*given[:2], batch, given[2])
        found = loss.judged_from(given[0] * 1, given[1], batch, given[2])
        (found / 3).backward()
    torch.testing.assert_close(seen, found)
    return [found.detach(), *(one.grad for one in given if one is not None)]


@given(
    kind=st.sampled_from(sorted(LOSSES)), taught=st.booleans(), rows=st.integers(1, 5), length=st.integers(1, 6), share=st.integers(2, 99),
    seed=st.integers(0, 99), packed=st.booleans(), biased=st.booleans(),
)  # fmt: skip
def test_from_states_on_shares_are_judged_as_the_whole(kind, taught, rows, length, share, seed, packed, biased):
    """The loss, and its gradients by the states, by the table that makes logits of them, and by the bias."""
    torch.manual_seed(seed)
    loss = choose_loss(load_recipe("tiny", LOSSES[kind]).train)
    labels = torch.randint(WORDS, (rows, length))
    if taught:
        aim = torch.randn(rows, length, WORDS, dtype=torch.float64).softmax(-1)
        loss = type(loss)(loss.predict, loss.judge, loss.terms, loss.smoothing, Said([], 0.5, aim))
    passes = 2 if kind in ("simcut", "rdrop") else 1
    states = torch.randn(passes * rows, length, 3, dtype=torch.float64)
    table, bias = torch.randn(WORDS, 3, dtype=torch.float64), torch.randn(WORDS, dtype=torch.float64)
    if packed:
        labels, states = labels.flatten(), states.flatten(0, 1)
    batch, known = PairBatch(labels, labels, labels), bias if biased else None
    wanted = judged_from(loss, states, table, known, batch, 10**9)
    for found, one in zip(judged_from(loss, states, table, known, batch, share), wanted, strict=True):
        torch.testing.assert_close(found, one)


def test_a_table_that_does_not_learn_has_no_gradient():
    loss, labels = choose_loss(load_recipe("tiny", {}).train), torch.randint(1, WORDS, (4, 9))
    states, table = torch.randn(4, 9, 3, requires_grad=True), torch.randn(WORDS, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", 1)
        loss.judged_from(states, table, PairBatch(labels, labels, labels)).backward()
    assert states.grad.abs().sum() > 0
    assert table.grad is None


@pytest.mark.parametrize("rdrop", [0.0, 5.0])
def test_of_logits_only_a_share_is_ever_there(rdrop, monkeypatch):
    """Shares are products of their own, under autocast in its precision; what is added up is as precise as the weights."""
    monkeypatch.setattr(pieces, "PIECE", 10 * WORDS)
    monkeypatch.setattr(pieces, "SHARE", 20 * WORDS)
    made, linear = [], pieces.linear

    def counted(*given):
        y = linear(*given)
        if y.shape[-1] == WORDS:  # not the gradient by the states
            made.append(y)
        return y

    monkeypatch.setattr(pieces, "linear", counted)
    loss, labels = choose_loss(load_recipe("tiny", {"train.rdrop": rdrop}).train), torch.randint(1, WORDS, (8, 9))
    states = torch.randn((16 if rdrop else 8), 9, 32, requires_grad=True)
    table = torch.randn(WORDS, 32, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss.judged_from(states, table, PairBatch(labels, labels, labels)).backward()
    assert {one.dtype for one in made} == {torch.bfloat16}
    assert max(one.numel() for one in made) == 20 * WORDS
    assert sum(one.numel() for one in made) == states[..., 0].numel() * WORDS
    gradient = table.grad.clone()
    assert gradient.dtype == torch.float32
    monkeypatch.undo()
    wanted = torch.autograd.grad(loss.judged_from(states, table, PairBatch(labels, labels, labels)), table)[0]
    assert (gradient - wanted).norm() < 0.02 * wanted.norm()


def test_what_is_held_at_a_time_is_bounded(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 2 * 3 * WORDS)
    seen = []

    def judge(logits, labels, cost):
        seen.append((tuple(logits.shape), labels.tolist()))
        return logits.sum()

    labels = torch.arange(8).view(2, 4)
    logits = torch.randn(4, 4, WORDS, requires_grad=True)
    pieces.in_pieces(judge, logits, labels, Aimed(torch.zeros(2, 4, WORDS))).backward()
    assert seen == [((6, WORDS), [0, 1, 2]), ((6, WORDS), [3, 4, 5]), ((4, WORDS), [6, 7])]
    assert torch.equal(logits.grad, torch.ones_like(logits))


def test_half_precision_is_judged_in_float32(monkeypatch):
    loss = choose_loss(load_recipe("tiny", {"train.rdrop": 5.0}).train)
    labels = torch.randint(1, WORDS, (8, 9))
    batch = PairBatch(labels, labels, labels, count=72)
    logits = torch.randn(16, 9, WORDS).bfloat16()
    wanted, its_gradient = judged(loss, logits.float(), batch, 10**9, monkeypatch)
    found, gradient = judged(loss, logits, batch, 2 * 5 * WORDS, monkeypatch)
    assert found.dtype == torch.float32
    assert gradient.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient.float(), its_gradient, rtol=0.02, atol=1e-3)


def test_the_gradient_has_none(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", WORDS)
    logits, labels = torch.randn(1, 3, WORDS, requires_grad=True), torch.tensor([[1, 2, 3]])
    loss = choose_loss(load_recipe("tiny", {}).train).judged(logits, PairBatch(labels, labels, labels, count=3))
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(loss, logits, create_graph=True)


def test_a_gradient_is_asked_for_once(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", WORDS)
    logits, labels = torch.randn(1, 3, WORDS, requires_grad=True), torch.tensor([[1, 2, 3]])
    loss = choose_loss(load_recipe("tiny", {}).train).judged(logits, PairBatch(labels, labels, labels, count=3))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can be gone through backwards once"):
        loss.backward()


def test_nor_twice_where_hooks_hold_what_is_saved(monkeypatch):
    """They bypass PyTorch's own check, and the gradient would be scaled twice."""
    monkeypatch.setattr(pieces, "PIECE", WORDS)
    logits, labels = torch.randn(1, 3, WORDS, requires_grad=True), torch.tensor([[1, 2, 3]])
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        loss = choose_loss(load_recipe("tiny", {}).train).judged(logits, PairBatch(labels, labels, labels, count=3))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can be gone through backwards once"):
        loss.backward()
