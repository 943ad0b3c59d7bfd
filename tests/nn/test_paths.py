"""Three paths, one answer: wherever two of them apply, outputs and gradients agree."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import event, given
from hypothesis import strategies as st

from manyheads.nn import Packed, Rotary, attention, causal_mask, explicit_attention, packed_attention, padding_mask
from manyheads.nn.fused import fused_attention
from manyheads.nn.masks import band_mask, document_mask, narrow, trim, window_mask
from manyheads.nn.windowed import windowed_applies

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@dataclass(frozen=True)
class Case:
    batch: int
    heads: int
    groups: int
    queries: int
    keys: int
    key_width: int
    value_width: int
    seed: int


sizes = st.integers(1, 9)
windows = st.none() | st.tuples(st.none() | st.integers(0, 6), st.none() | st.integers(0, 6))


@st.composite
def cases(draw):
    groups = draw(st.sampled_from([1, 2]))
    return Case(
        batch=draw(st.integers(1, 3)),
        heads=groups * draw(st.sampled_from([1, 2, 3])),
        groups=groups,
        queries=draw(sizes),
        keys=draw(sizes),
        key_width=draw(st.sampled_from([2, 4, 16])),
        value_width=draw(st.sampled_from([2, 4, 16])),
        seed=draw(st.integers(0, 1000)),
    )


def draw_qkv(case, dtype=torch.float32, device="cpu"):
    random = torch.Generator().manual_seed(case.seed)
    shapes = [
        (case.batch, case.heads, case.queries, case.key_width),
        (case.batch, case.groups, case.keys, case.key_width),
        (case.batch, case.groups, case.keys, case.value_width),
    ]
    return [torch.randn(shape, generator=random).to(device, dtype).requires_grad_() for shape in shapes], random


def gradients(output, inputs):
    """Gradients of a sum weighted so that no two elements count alike."""
    weight = torch.linspace(-1, 1, output.numel(), device=output.device).view(output.shape)
    return torch.autograd.grad((output.float() * weight).sum(), inputs, retain_graph=True)


def assert_same(ours, theirs, inputs, dtype=torch.float32):
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(ours.float(), theirs.float(), atol=tolerance, rtol=tolerance)
    for a, b in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        torch.testing.assert_close(a.float(), b.float(), atol=tolerance, rtol=tolerance)


def random_mask(case, random, share):
    full = (case.batch, case.heads, case.queries, case.keys)
    shape = [size if torch.rand((), generator=random) < 0.6 else 1 for size in full]
    return torch.rand(shape, generator=random) < share


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@given(case=cases(), share=st.sampled_from([0.0, 0.3, 0.8, 1.0]), causal=st.booleans(), window=windows)
def test_fused_equals_explicit(dtype, case, share, causal, window):
    inputs, random = draw_qkv(case, dtype)
    mask = random_mask(case, random, share) if share < 1 else None
    fused = attention(*inputs, mask=mask, causal=causal, window=window)
    explicit, weights = attention(*inputs, mask=mask, causal=causal, window=window, return_weights=True)
    assert_same(fused, explicit, inputs, dtype)
    seen = torch.ones_like(weights, dtype=torch.bool)
    for part in (mask, causal_mask(case.queries, case.keys) if causal else None,
                 window_mask(case.queries, case.keys, window=window) if window else None):  # fmt: skip
        seen = seen if part is None else seen & part
    assert (weights[~seen] == 0).all()
    rows = weights.float().sum(-1)
    torch.testing.assert_close(rows, seen.any(-1).float(), atol=TOLERANCE[dtype], rtol=0)


@given(
    length=st.integers(1, 700), window=st.tuples(st.integers(0, 40), st.integers(0, 40)), causal=st.booleans(),
    padded=st.booleans(), groups=st.sampled_from([1, 2]),
)  # fmt: skip
def test_a_narrow_window_in_chunks_equals_the_explicit_path(length, window, causal, padded, groups):
    case = Case(batch=2, heads=2, groups=groups, queries=length, keys=length, key_width=4, value_width=6, seed=length)
    inputs, _ = draw_qkv(case)
    mask = padding_mask(torch.tensor([length, length // 3]), length) if padded else None
    event(f"in chunks: {windowed_applies(inputs[0], inputs[1], mask, trim(narrow(window, causal), length, length))}")
    chunked = attention(*inputs, mask=mask, window=window, causal=causal)
    explicit, _ = attention(*inputs, mask=mask, window=window, causal=causal, return_weights=True)
    assert_same(chunked, explicit, inputs)


@pytest.mark.parametrize("length", [288, 289, 319, 320, 321, 500])
@pytest.mark.parametrize("window", [(16, 16), (0, 0), (31, 0), (0, 32)])
def test_chunks_of_every_remainder(length, window):
    case = Case(batch=2, heads=2, groups=1, queries=length, keys=length, key_width=4, value_width=6, seed=length)
    inputs, _ = draw_qkv(case)
    assert windowed_applies(inputs[0], inputs[1], None, window)
    assert_same(attention(*inputs, window=window), attention(*inputs, window=window, return_weights=True)[0], inputs)


def test_narrow_windows_are_cut_into_chunks():
    q = torch.zeros(1, 1, 512, 4)
    mask = torch.ones(1, 1, 1, 512, dtype=torch.bool)
    assert windowed_applies(q, q, None, (16, 16))
    assert windowed_applies(q, q, mask, (16, 0))
    assert not windowed_applies(q, q, None, (None, 0))
    assert not windowed_applies(q, q, None, (200, 200))
    assert not windowed_applies(q, q, mask.expand(1, 1, 512, 512), (16, 16))


def draw_packed(draw_lengths, same):
    return st.lists(draw_lengths, min_size=1, max_size=4).flatmap(
        lambda a: st.tuples(
            st.just(a), st.just(a) if same else st.lists(draw_lengths, min_size=len(a), max_size=len(a))
        )
    )


@pytest.mark.parametrize("rotary", [False, True])
@given(
    lengths=st.booleans().flatmap(lambda same: draw_packed(st.integers(1, 7), same)),
    case=cases(), causal=st.booleans(), window=windows,
)  # fmt: skip
def test_packed_equals_each_sequence_alone(rotary, lengths, case, causal, window):
    query_lengths, key_lengths = lengths
    queries, keys = Packed.from_lengths(query_lengths), Packed.from_lengths(key_lengths)
    random = torch.Generator().manual_seed(case.seed)
    shapes = [(case.heads, case.key_width), (case.groups, case.key_width), (case.groups, case.value_width)]
    totals = [sum(query_lengths), sum(key_lengths), sum(key_lengths)]
    inputs = [torch.randn(n, *s, generator=random).requires_grad_() for n, s in zip(totals, shapes, strict=True)]
    q, k, v = inputs
    if rotary:
        turn = Rotary(case.key_width)
        q, k = turn(q, queries.positions), turn(k, keys.positions)
    together = packed_attention(q, k, v, queries=queries, keys=keys, causal=causal, window=window)
    alone = [
        attention(*(x.transpose(0, 1)[None] for x in parts), causal=causal, window=window)[0].transpose(0, 1)
        for parts in zip(q.split(query_lengths), k.split(key_lengths), v.split(key_lengths), strict=True)
    ]
    assert_same(together, torch.cat(alone), inputs)


@given(lengths=draw_packed(st.integers(1, 7), same=True), case=cases())
def test_packed_weights_are_those_of_the_padded_batch(lengths, case):
    layout = Packed.from_lengths(lengths[0])
    random = torch.Generator().manual_seed(case.seed)
    q, k, v = (torch.randn(sum(lengths[0]), 2, 4, generator=random) for _ in range(3))
    _, weights = packed_attention(q, k, v, queries=layout, keys=layout, causal=True, return_weights=True)
    padded = [layout.pad(x).transpose(1, 2) for x in (q, k, v)]
    _, expected = attention(*padded, causal=True, return_weights=True)
    inside = layout.padded().keep[:, None, :, None].expand_as(weights)
    torch.testing.assert_close(weights[inside], expected[inside])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_a_query_without_keys_gives_zeros_and_finite_gradients(device, dtype, path):
    case = Case(batch=2, heads=4, groups=2, queries=33, keys=40, key_width=64, value_width=64, seed=1)
    inputs, random = draw_qkv(case, dtype, device)
    mask = random_mask(case, random, 0.5).expand(2, 4, 33, 40).clone()
    mask[0, :, 3] = mask[1, 2, 30] = mask[1, 0, :7] = False
    mask = mask.to(device)
    out = attention(*inputs, mask=mask, return_weights=path == "explicit")
    out = out[0] if path == "explicit" else out
    empty = ~mask.any(-1)
    assert empty.any()
    assert (out[empty] == 0).all()
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in gradients(out, inputs))
    assert (gradients(out, inputs)[0][empty] == 0).all()


@pytest.mark.parametrize("mask", ["none", "padding", "causal", "window", "document"])
def test_each_mask_is_what_it_says(mask, device):
    lengths, documents = torch.tensor([5, 3]), torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]])
    allowed = {
        "none": lambda b, i, j: True,
        "padding": lambda b, i, j: j < lengths[b],
        "causal": lambda b, i, j: j <= i,
        "window": lambda b, i, j: i - 2 <= j <= i + 1,
        "document": lambda b, i, j: documents[b, i] == documents[b, j],
    }[mask]
    built = {
        "none": torch.ones(5, 5, dtype=torch.bool),
        "padding": padding_mask(lengths, 5),
        "causal": causal_mask(5),
        "window": window_mask(5, window=(2, 1)),
        "document": document_mask(documents, documents),
    }[mask]
    expected = torch.tensor([[[bool(allowed(b, i, j)) for j in range(5)] for i in range(5)] for b in range(2)])
    assert (built.expand(2, 1, 5, 5)[:, 0] == expected).all()
    q, k, v = torch.randn(3, 2, 2, 5, 8, device=device).unbind()
    _, weights = attention(q, k, v, mask=built.to(device), return_weights=True)
    assert ((weights > 0).cpu() == expected[:, None]).all()


def test_causal_with_more_keys_than_queries_means_the_last_queries():
    q, k, v = torch.randn(1, 2, 6, 4), torch.randn(1, 2, 6, 4), torch.randn(1, 2, 6, 4)
    torch.testing.assert_close(attention(q[:, :, 4:], k, v, causal=True), attention(q, k, v, causal=True)[:, :, 4:])


@pytest.mark.parametrize("shape", [(), (4,), (1, 4), (3, 4), (1, 3, 4)], ids=str)
def test_a_mask_may_have_any_number_of_axes(shape):
    q, k = torch.randn(2, 2, 3, 8), torch.randn(2, 2, 4, 8)
    mask = torch.rand(shape) < 0.7
    for window in (None, (1, 1), (0, 0)):
        fused, (explicit, _) = (attention(q, k, k, mask=mask, window=window, return_weights=w) for w in (False, True))
        torch.testing.assert_close(fused, explicit)


@given(left=st.integers(0, 8), right=st.integers(0, 8), queries=sizes, keys=sizes)
def test_a_window_as_wide_as_the_sequence_forbids_nothing(left, right, queries, keys):
    q, k, v = torch.randn(1, 1, queries, 4), torch.randn(1, 1, keys, 4), torch.randn(1, 1, keys, 4)
    mask = band_mask(torch.arange(keys - queries, keys), torch.arange(keys), (left, right))
    torch.testing.assert_close(attention(q, k, v, window=(left, right)), attention(q, k, v, mask=mask))


def test_dropout_keeps_the_mean_and_the_weights():
    q, k = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 6, 8)
    v = torch.ones(1, 1, 6, 8)
    many = [explicit_attention(q, k, v, dropout=0.5) for _ in range(2000)]
    assert torch.stack([out for out, _ in many]).mean() == pytest.approx(1.0, abs=0.02)
    assert all((weights == many[0][1]).all() for _, weights in many)
    assert not torch.equal(fused_attention(q, k, v, dropout=0.5), fused_attention(q, k, v, dropout=0.5))
