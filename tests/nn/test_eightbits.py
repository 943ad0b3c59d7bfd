"""Products of 8-bit numbers: what the rounded factors give in float64, the same bits whatever other rows are computed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyheads.nn.eightbits import EightBits, is_exact, round_rows
from manyheads.nn.linear import linear

pytestmark = pytest.mark.skipif(not is_exact(), reason="this processor adds up 8-bit products inexactly")


def matrix(rows, columns, seed=0, scale=1.0):
    return scale * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def as_numbers(x):
    numbers, scales = round_rows(x)
    return numbers.double() * scales.double()


@given(
    rows=st.integers(1, 40), inputs=st.integers(2, 300), outputs=st.integers(1, 70), bias=st.booleans(),
    seed=st.integers(0, 9),
)  # fmt: skip
def test_a_product_is_that_of_the_rounded_factors(rows, inputs, outputs, bias, seed):
    x, w = matrix(rows, inputs, seed, 10.0), matrix(outputs, inputs, seed + 1, 0.1)
    b = matrix(1, outputs, seed + 2)[0] if bias else None
    expected = as_numbers(x) @ as_numbers(w).T + (0 if b is None else b.double())
    torch.testing.assert_close(linear(x, EightBits.of(w), b).double(), expected, rtol=1e-5, atol=1e-5)


@given(rows=st.integers(1, 20), columns=st.integers(1, 50), seed=st.integers(0, 9))
def test_rows_are_rounded_to_the_nearest_of_255_numbers(rows, columns, seed):
    x = matrix(rows, columns, seed, 3.0)
    numbers, scales = round_rows(x)
    assert (numbers.abs().amax(1) == 127).all()
    assert ((x - numbers * scales).abs() <= 0.5001 * scales).all()


def test_extremes_do_not_overflow():
    """Pairs of such products do not fit into 16 bits, where processors without VNNI add them up."""
    for sign in (1, -1):
        x, w = torch.full((7, 4096), 2.0), torch.full((9, 4096), sign * 3.0)
        torch.testing.assert_close(linear(x, EightBits.of(w)), torch.full((7, 9), sign * 6.0 * 4096))


@given(rows=st.integers(1, 33), row=st.integers(0, 32), seed=st.integers(0, 9))
def test_a_row_does_not_depend_on_the_others(rows, row, seed):
    x, w, b = matrix(rows, 48, seed), EightBits.of(matrix(65, 48, seed + 1)), matrix(1, 65)[0]
    row %= rows
    assert torch.equal(linear(x, w, b)[row], linear(x[row], w, b))
    assert torch.equal(linear(x, w, b)[row], linear(x[row:], w, b)[0])


def test_nor_on_the_number_of_threads():
    x, w, threads = matrix(100, 256), EightBits.of(matrix(1000, 256, 1)), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = linear(x, w)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(linear(x, w), alone)


@pytest.mark.parametrize("shape", [(6,), (1, 6), (0, 6), (2, 3, 6), (2, 0, 6), (2, 1, 3, 6)])
def test_all_shapes_that_linear_takes(shape):
    x, w = torch.ones(shape), matrix(5, 6)
    y = linear(x, EightBits.of(w))
    assert y.shape == (*shape[:-1], 5)
    torch.testing.assert_close(y, torch.nn.functional.linear(x, w), atol=0.05, rtol=0)


def test_a_matrix_can_be_cut_like_a_tensor():
    w, x = matrix(12, 8), matrix(3, 8, 1)
    whole = EightBits.of(w)
    parts = whole.split_with_sizes([4, 8])
    assert torch.equal(torch.cat([linear(x, part) for part in parts], 1), linear(x, whole))
    assert torch.equal(linear(x, whole[:5]), linear(x, whole)[:, :5])
    assert (len(whole[:5]), whole.shape, whole.dtype) == (5, (12, 8), torch.int8)


def test_what_was_rounded_once_stays_as_it_is():
    """A model that is stored in 8 bits computes with the very weights that are stored."""
    once = EightBits.of(matrix(64, 64))
    again = EightBits.of(once.rows(torch.arange(64)))
    assert torch.equal(once.numbers, again.numbers)
    torch.testing.assert_close(once.scales, again.scales, rtol=1e-6, atol=0)


def test_rows_of_zeros_stay_zeros():
    w = matrix(3, 4)
    w[1] = 0
    assert not linear(torch.zeros(2, 4), EightBits.of(w)).any()
    assert not linear(torch.ones(2, 4), EightBits.of(w))[:, 1].any()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_stays_so_and_spoils_no_other_row(value):
    x, w = matrix(3, 8), EightBits.of(matrix(5, 8, 1))
    wanted = linear(x, w)
    x[1, 2] = value
    y = linear(x, w)
    assert not y[1].isfinite().any()
    assert torch.equal(y[[0, 2]], wanted[[0, 2]])
