"""Dropout on a CPU: its share is dropped, the mean stays, the gradient goes where the number went, and draws are independent."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from manyheads.nn.dropout import LEVELS, Dropout, draw_kept, dropout

COUNT = 1 << 20


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9])
def test_its_share_is_dropped_and_the_mean_stays(p):
    torch.manual_seed(1)
    y = dropout(torch.ones(COUNT), p)
    assert y.unique().numel() == 2
    torch.testing.assert_close(y.max(), torch.tensor(1 / (1 - p)), atol=0, rtol=1 / LEVELS / (1 - p))
    error = (p * (1 - p) / COUNT) ** 0.5
    assert abs((y == 0).double().mean() - p) < 4 * error
    assert abs(y.double().mean() - 1) < 4 * error / (1 - p)


def test_what_is_drawn_for_one_says_nothing_of_the_others():
    """Four come from one number of 64 bits: each is dropped as often, alone and together with each of the next nine."""
    torch.manual_seed(2)
    kept = draw_kept(torch.Size([COUNT]), LEVELS // 4).view(-1, 4)
    assert torch.allclose(kept.double().mean(0), torch.tensor(0.75).double(), atol=4 * 0.44 / (COUNT / 4) ** 0.5)
    flat = kept.flatten().double() - 0.75
    for apart in range(1, 10):
        assert abs((flat[apart:] * flat[:-apart]).mean()) < 4 * 0.1875 / COUNT**0.5


def test_every_level_is_as_likely():
    """The lowest and the highest among them: of 2²² draws 64 each, none of them 6.5 standard deviations off, and all together as far off as chance has it."""
    torch.manual_seed(3)
    bits = torch.empty(COUNT, dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)
    counts = torch.bincount(bits.int() + LEVELS // 2, minlength=LEVELS)
    assert counts.shape == (LEVELS,)
    assert counts.float().mean() == 64
    assert (counts - 64).abs().max() < 6.5 * 8
    assert abs(((counts - 64.0) ** 2).mean() / 64 - 1) < 0.05


@given(st.lists(st.integers(0, 5), max_size=4), st.sampled_from([0.0, 1e-9, 0.2, 0.5, 1 - 1e-9]), st.integers(0, 99))
def test_gradients_go_where_numbers_went(shape, p, seed):
    torch.manual_seed(seed)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y = dropout(x, p)
    assert y.shape == x.shape
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y, x * gradient)
    assert ((gradient == 0) | (gradient >= 1)).all()


def test_second_derivatives_and_views():
    x = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)

    def same_each_time(x):
        torch.manual_seed(4)
        return dropout(x.T, 0.4) ** 2

    assert torch.autograd.gradcheck(same_each_time, x)
    assert torch.autograd.gradgradcheck(same_each_time, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_seed_says_what_is_dropped_whatever_the_precision(dtype):
    def drawn(dtype=dtype):
        torch.manual_seed(5)
        return dropout(torch.ones(1000, dtype=dtype), 0.3)

    assert drawn().dtype == dtype
    assert torch.equal(drawn(), drawn())
    assert torch.equal(drawn() == 0, drawn(torch.float32) == 0)


def test_as_a_module_it_is_for_training_only():
    layer, x = Dropout(0.5), torch.ones(64)
    assert (layer(x) == 0).any()
    assert layer.eval()(x) is x


def test_where_tensors_are_made_elsewhere_by_default():
    with torch.device("meta"):
        assert dropout(torch.ones(9, device="cpu"), 0.5).device.type == "cpu"


def test_compiled_it_is_the_compilers_own(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(F, "dropout", lambda x, p: asked.append(p) or x)
    dropout(torch.ones(2), 0.25)
    assert asked == [0.25]


@pytest.mark.plain
def test_where_it_is_transformed_it_is_pytorchs():
    x = torch.randn(3, 8)
    for transformed in (
        lambda: torch.func.grad(lambda x: dropout(x, 0.5).sum())(x),
        lambda: torch.func.vmap(torch.func.grad(lambda x: dropout(x, 0.5).sum()), randomness="different")(x),
        lambda: torch.func.jvp(lambda x: dropout(x, 0.5), (x,), (torch.ones_like(x),))[1],
        lambda: torch.jit.trace(lambda x: dropout(x, 0.5), x, check_trace=False)(torch.ones_like(x)),
    ):
        assert set(transformed().unique().tolist()) <= {0.0, 2.0}
