"""Positions, feed-forward, norms, residuals, drop path and layouts: the small parts, each against its definition."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from manyheads.nn import (
    DropPath,
    FeedForward,
    LearnedPositions,
    Packed,
    Padded,
    PostNorm,
    PreNorm,
    SinusoidalPositions,
    sinusoids,
)
from manyheads.nn.norms import make_norm
from manyheads.nn.unchanged import unchanged

lengths = st.lists(st.integers(1, 9), min_size=1, max_size=5)


def test_sinusoids_are_the_papers_formula():
    table = sinusoids(torch.arange(50), 16)
    for position in (0, 1, 7, 49):
        for i in range(8):
            angle = position / 10_000 ** (2 * i / 16)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_half_split_sinusoids_are_the_same_columns_in_another_order():
    interleaved, split = sinusoids(torch.arange(9), 6), sinusoids(torch.arange(9), 6, interleaved=False)
    assert torch.equal(split, interleaved[:, [0, 2, 4, 1, 3, 5]])


def test_the_product_of_two_sinusoids_depends_on_their_distance_and_falls_with_it():
    table = sinusoids(torch.arange(200), 64)
    products = table @ table.T
    torch.testing.assert_close(products[3, 10], products[103, 110], atol=1e-3, rtol=0)
    assert products[50, 50] > products[50, 51] > products[50, 54] > products[50, 60]


@pytest.mark.parametrize(
    "positions",
    [SinusoidalPositions(8), SinusoidalPositions(8, interleaved=False), LearnedPositions(9, 8), unchanged],
    ids=["interleaved", "half-split", "learned", "none"],
)
@given(lengths=lengths)
def test_positions_are_counted_from_the_start_of_each_sequence(positions, lengths):
    packed, padded = Packed.from_lengths(lengths), Padded.from_lengths(lengths)
    x = torch.randn(sum(lengths), 8)
    torch.testing.assert_close(positions(x, packed), packed.pack(positions(packed.pad(x), padded)))
    longest = x[: lengths[0]][None]
    torch.testing.assert_close(positions(x, packed)[: lengths[0]], positions(longest, Padded.like(longest))[0])


@given(lengths=lengths)
def test_pack_undoes_pad_and_padding_is_zero(lengths):
    layout = Packed.from_lengths(lengths)
    x = torch.randn(sum(lengths), 3)
    padded = layout.pad(x)
    assert torch.equal(layout.pack(padded), x)
    assert torch.equal(layout.padded().keep, Padded.from_lengths(lengths).keep)
    assert (padded[~layout.padded().keep] == 0).all()
    assert layout.lengths.tolist() == lengths
    assert layout.positions.tolist() == [i for length in lengths for i in range(length)]


def test_rows_can_be_selected():
    layout = Padded.from_lengths([3, 1, 2]).select(torch.tensor([2, 2, 0, 1]))
    assert layout.shape == (4, 3)
    assert layout.keep.sum(1).tolist() == [2, 2, 3, 1]
    own = Padded((2, 3), torch.tensor([[0, 1, 2], [5, 6, 7]]), longest=8).select(torch.tensor([1]))
    assert own.positions.tolist() == [[5, 6, 7]]


def test_a_packed_batch_may_hold_empty_sequences():
    layout = Packed.from_offsets(torch.tensor([0, 2, 2, 5, 5]), tokens=5, longest=3)
    assert layout.lengths.tolist() == [2, 0, 3, 0]
    assert layout.rows.tolist() == [0, 0, 2, 2, 2]


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("relu", lambda x: x.clamp(min=0)),
        ("gelu", lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))),
        ("gelu-tanh", lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        ("silu", lambda x: x / (1 + torch.exp(-x))),
    ],
)
def test_activations_are_what_they_are_called(name, formula):
    layer, x = FeedForward(4, 6, activation=name), torch.randn(2, 3, 4)
    torch.testing.assert_close(layer(x), layer.down(formula(layer.up(x))), atol=1e-6, rtol=1e-5)


def test_swiglu_gates_one_half_with_the_other():
    layer, x = FeedForward(4, 6, activation="swiglu", bias=False), torch.randn(2, 3, 4)
    gate, value = (x @ w.T for w in layer.up.weight.chunk(2))
    torch.testing.assert_close(layer(x), layer.down(gate * torch.sigmoid(gate) * value))


def test_norms():
    x = torch.randn(3, 8)
    centred = x - x.mean(-1, keepdim=True)
    layer = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    rms = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(make_norm("layer", 8, 1e-5)(x), layer)
    torch.testing.assert_close(make_norm("rms", 8, 1e-5)(x), rms)


def test_pre_and_post_norm():
    x, norm, double = torch.randn(2, 3, 8), nn.LayerNorm(8), lambda x: 2 * x
    layout = Padded.like(x)
    torch.testing.assert_close(PreNorm(lambda: norm)(x, double, layout), x + 2 * norm(x))
    torch.testing.assert_close(PostNorm(lambda: norm)(x, double, layout), norm(x + 2 * x))


@pytest.mark.parametrize("packed", [False, True])
def test_drop_path_drops_whole_sequences_and_keeps_the_mean(packed):
    lengths = [2, 3, 1] * 200
    layout = (Packed if packed else Padded).from_lengths(lengths)
    x = torch.ones(sum(lengths), 4) if packed else torch.ones(600, 3, 4)
    dropped = DropPath(0.25)(x, layout)
    rows = [part.unique() for part in (dropped.split(lengths) if packed else dropped)]
    assert all(len(row) == 1 for row in rows), "a sequence is dropped as one"
    values = torch.cat(rows)
    torch.testing.assert_close(values.unique(), torch.tensor([0.0, 1 / 0.75]))
    assert values.mean().item() == pytest.approx(1.0, abs=0.1)
    assert torch.equal(DropPath(0.25).eval()(x, layout), x)


def test_dropout_can_be_left_on_by_itself():
    """Monte-Carlo dropout: the model evaluates, its dropouts train."""
    x = torch.ones(1, 2, 1000)
    residual = PreNorm(nn.Identity, dropout=0.5).eval()
    residual.dropout.train()
    assert set(residual(x, lambda y: y, Padded.like(x)).unique().tolist()) == {1.0, 3.0}


def test_dropout_goes_on_the_sublayer_not_on_the_residual():
    x = torch.ones(1, 2, 1000)
    y = PreNorm(nn.Identity, dropout=0.5)(x, partial(torch.mul, torch.tensor(1.0)), Padded.like(x))
    assert set(y.unique().tolist()) == {1.0, 3.0}
