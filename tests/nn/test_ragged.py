"""Ragged attention against the explicit path, sentence by sentence. Without a GPU its kernels are interpreted (conftest.py)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.nn import Packed
from manyheads.nn.attention import attention

pytest.importorskip("triton")

from manyheads.nn.ragged import parts_of, ragged_applies, ragged_attention

pytestmark = pytest.mark.plain

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
WIDTH = 16


def draw(tokens, heads, seed):
    """On a GPU in half precision, as there; interpreted, in float32."""
    torch.manual_seed(seed)
    return torch.randn(tokens, heads, WIDTH, device=DEVICE, dtype=torch.bfloat16 if GPU else torch.float32)


def one_by_one(q, k, v, queries, keys, window):
    """In double precision, each sentence alone; one without keys gives zeros."""
    out = []
    for start, end, first, last in zip(
        *(side.offsets.tolist()[i:][: side.batch] for side in (queries, keys) for i in (0, 1)), strict=True
    ):
        sides = (q[start:end], k[first:last], v[first:last])
        if last == first or end == start:
            out.append(q[start:end].double() * 0)
            continue
        heads = (side.double().transpose(0, 1)[None] for side in sides)
        out.append(attention(*heads, window=window, return_weights=True)[0][0].transpose(0, 1))
    return torch.cat(out)


def close(ours, exact):
    tolerance = 2e-2 if GPU else 1e-5
    assert (ours.double() - exact).norm() <= tolerance * exact.norm() + 1e-6


LENGTHS = st.lists(st.integers(0, 90), min_size=1, max_size=7).filter(any)
WINDOWS = st.sampled_from([(None, None), (None, 0), (3, 0), (2, 5)])


@settings(max_examples=12)
@given(LENGTHS, WINDOWS, st.sampled_from([(2, 2), (4, 2), (3, 1)]), st.integers(0, 99))
def test_self_attention_is_that_of_every_sentence_alone(lengths, window, heads, seed):
    count, groups = heads
    offsets = torch.tensor([0, *lengths], device=DEVICE).cumsum(0)
    layout = Packed.from_offsets(offsets, sum(lengths), 128)
    joined = draw(sum(lengths), count + 2 * groups, seed).requires_grad_()
    gradient = draw(sum(lengths), count, seed + 1)
    out = ragged_attention(joined, None, count, layout, layout, window)
    exact = one_by_one(*parts_of(joined, None, count), layout, layout, window)
    close(out, exact)
    ours, theirs = (torch.autograd.grad(y, joined, g)[0] for y, g in ((out, gradient), (exact, gradient.double())))
    close(ours, theirs.double())


@settings(max_examples=12)
@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), min_size=1, max_size=7), st.integers(0, 99))
def test_cross_attention_reads_the_sentence_of_the_same_number(lengths, seed):
    """Also where one side of a pair is empty."""
    sides = []
    for side in zip(*lengths, strict=True):
        total = sum(side) + 1  # a last sentence of one token: no side is without any
        offsets = torch.tensor([0, *side, 1], device=DEVICE).cumsum(0)
        sides.append(Packed.from_offsets(offsets, total, 128))
    queries, keys = sides
    q, kv = draw(queries.shape[0], 2, seed).requires_grad_(), draw(keys.shape[0], 4, seed + 1).requires_grad_()
    out = ragged_attention(q, kv, 2, queries, keys)
    exact = one_by_one(*parts_of(q, kv, 2), queries, keys, (None, None))
    close(out, exact)
    gradient = draw(queries.shape[0], 2, seed + 2)
    ours = torch.autograd.grad(out, (q, kv), gradient)
    theirs = torch.autograd.grad(exact, (q, kv), gradient.double())
    for mine, other in zip(ours, theirs, strict=True):
        close(mine, other.double())


def test_the_gradient_is_the_same_bits_every_time():
    layout = Packed.from_lengths([5, 64, 1, 130, 7], DEVICE)
    joined = draw(layout.shape[0], 6, 0).requires_grad_()
    gradients = [
        torch.autograd.grad(ragged_attention(joined, None, 2, layout, layout, (None, 0)).sum(), joined)[0]
        for _ in range(3)
    ]
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])


def test_where_it_applies():
    layout, other = (Packed.from_lengths([4, 4], DEVICE) for _ in range(2))
    half = torch.zeros(8, 2, 64, device=DEVICE, dtype=torch.bfloat16)
    assert ragged_applies(half, 64, layout, layout, (None, 0)) == GPU
    assert not ragged_applies(half.float(), 64, layout, layout, (None, 0))
    assert not ragged_applies(half, 24, layout, layout, (None, 0))
    assert not ragged_applies(half, 64, layout, other, (None, 0))  # places of two sequences cannot be compared
    long = Packed.from_lengths([2000], DEVICE)
    assert not ragged_applies(half, 64, long, long, (None, None))
