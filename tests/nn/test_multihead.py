"""Multi-head attention under every option: weights, caches, layouts and batches change nothing but speed."""

import copy
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyheads import TensorError
from manyheads.nn import KeyValueCache, MultiHeadAttention, Packed, Padded, Rotary, attention, rotate
from manyheads.nn.scores import additive

WIDTH = 16
OPTIONS = {
    "plain": {},
    "biases": {"bias": True},
    "grouped": {"kv_heads": 2},
    "one key head": {"kv_heads": 1},
    "free widths": {"key_width": 6, "value_width": 10},
    "query-key norm": {"qk_norm": True},
    "rotary": {"rotary": Rotary(4)},
    "rotary, interleaved": {"rotary": Rotary(4, interleaved=True)},
    "dot": {"score": "dot"},
    "additive": {"score": "additive"},
    "window": {"window": (2, 1)},
    "all at once": {"kv_heads": 2, "bias": True, "qk_norm": True, "rotary": Rotary(4), "window": (3, None)},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def build(causal=False, **options):
    mha = MultiHeadAttention(WIDTH, 4, causal=causal, **options)
    for parameter in mha.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return mha


def close(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


@every_option
@pytest.mark.parametrize("causal", [False, True])
def test_weights_on_request_change_nothing(options, causal):
    mha, x = build(causal, **options), torch.randn(3, 7, WIDTH)
    y, weights = mha(x, return_weights=True)
    close(mha(x), y)
    assert weights.shape == (3, 4, 7, 7)
    close(weights.sum(-1), torch.ones(3, 4, 7))


@every_option
def test_cached_equals_uncached(options):
    mha, x = build(causal=True, **options), torch.randn(2, 9, WIDTH)
    cache, steps = KeyValueCache(), []
    for start, stop in [(0, 1), (1, 2), (2, 5), (5, 6), (6, 9)]:
        steps.append(mha(x[:, start:stop], cache=cache))
    close(torch.cat(steps, dim=1), mha(x))
    assert cache.length == 9


@every_option
def test_a_cache_follows_its_beams(options):
    mha, x = build(causal=True, **options), torch.randn(3, 40, WIDTH)
    rows = torch.tensor([2, 0, 0, 1])
    cache = KeyValueCache()
    mha(x[:, :20], cache=cache)
    cache.select(rows)
    close(mha(x[rows, 20:], cache=cache), mha(x[rows])[:, 20:])


@every_option
@pytest.mark.parametrize("causal", [False, True])
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_packed_equals_padded_equals_alone(options, causal, lengths, seed):
    torch.manual_seed(seed)
    mha = build(causal, **options)
    packed, padded = Packed.from_lengths(lengths), Padded.from_lengths(lengths)
    x = torch.randn(sum(lengths), WIDTH)
    alone = torch.cat([mha(row[None])[0] for row in x.split(lengths)])
    close(mha(x, layout=packed), alone)
    close(packed.pack(mha(packed.pad(x), layout=padded)), alone)


@every_option
@given(lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4))
def test_cross_attention_packed_equals_padded_equals_alone(options, lengths):
    mha = build(**{name: option for name, option in options.items() if name != "window"})
    targets, sources = [t for t, _ in lengths], [s for _, s in lengths]
    x, memory = torch.randn(sum(targets), WIDTH), torch.randn(sum(sources), WIDTH)
    t, s = Packed.from_lengths(targets), Packed.from_lengths(sources)
    alone = [mha(a[None], b[None])[0] for a, b in zip(x.split(targets), memory.split(sources), strict=True)]
    close(mha(x, memory, layout=t, memory_layout=s), torch.cat(alone))
    padded = mha(t.pad(x), s.pad(memory), memory_layout=s.padded())
    close(t.pack(padded), torch.cat(alone))
    read = mha.keys_values(s.pad(memory))
    close(t.pack(mha(t.pad(x), read, memory_layout=s.padded())), torch.cat(alone))


@given(side=st.tuples(st.integers(0, 5), st.integers(0, 5)), length=st.integers(1, 12))
def test_what_a_window_hides_has_no_influence(side, length):
    mha, x = build(window=side), torch.randn(1, length, WIDTH)
    seen, middle = range(max(0, length // 2 - side[0]), min(length, length // 2 + side[1] + 1)), length // 2
    other = torch.randn_like(x)
    other[:, seen] = x[:, seen]
    close(mha(x)[:, middle], mha(other)[:, middle])


def test_a_cache_that_refuses_stays_as_it_was():
    mha, x = build(causal=True), torch.randn(2, 5, WIDTH)
    cache = KeyValueCache()
    mha(x, cache=cache)
    with pytest.raises(
        TensorError,
        match=r"new keys must match the cache, \(batch, heads, width, dtype\) = \(2, 4, 4, torch.float32\), got",
    ):
        mha(x[:1], cache=cache)
    with pytest.raises(TensorError, match=r"a mask must broadcast to"):
        mha(x, cache=cache, mask=torch.ones(5, 5, dtype=torch.bool))
    with pytest.raises(TensorError, match=r"new keys must match the cache"):
        build(causal=True).double()(x.double(), cache=cache)
    assert cache.length == 5
    close(mha(x, cache=cache), mha(torch.cat([x, x], dim=1))[:, 5:])


def test_decoding_with_a_window_reads_no_more_than_the_window(monkeypatch):
    mha, x = build(causal=True, window=(3, None)), torch.randn(1, 30, WIDTH)
    cache = KeyValueCache()
    mha(x[:, :29], cache=cache)
    seen = []
    fused = sys.modules["manyheads.nn.attention"].fused_attention
    spy = lambda q, k, v, **options: seen.append(k.shape[2]) or fused(q, k, v, **options)  # noqa: E731
    monkeypatch.setattr(sys.modules["manyheads.nn.attention"], "fused_attention", spy)
    close(mha(x[:, 29:], cache=cache), mha(x)[:, 29:])
    assert seen[0] == 4


@every_option
@pytest.mark.parametrize("memory", [False, True])
def test_autocast(options, memory):
    mha, x = build(**{k: v for k, v in options.items() if k != "window"}), torch.randn(2, 5, WIDTH)
    given = (x, torch.randn(2, 4, WIDTH)) if memory else (x,)
    with torch.autocast("cpu", torch.bfloat16):
        y, weights = mha(*given, return_weights=True)
        fused = mha(*given)
    scale = mha(*given).abs().max().item()
    close(y.float(), mha(*given), 0.05 * scale)
    close(fused.float(), mha(*given), 0.05 * scale)
    close(weights.float().sum(-1), torch.ones(weights.shape[:-1]), 1e-3)


def test_queries_and_keys_keep_their_dtype_when_norms_are_computed_in_float32(monkeypatch):
    """As autocast does on a GPU."""
    in_half = torch.nn.RMSNorm.forward
    monkeypatch.setattr(torch.nn.RMSNorm, "forward", lambda self, x: in_half(self, x).float())
    mha = build(qk_norm=True).bfloat16()
    assert mha(torch.randn(1, 3, WIDTH, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_asking_for_weights_costs_no_precision_in_half():
    q, k, v = (3 * torch.randn(2, 4, 32, 64, dtype=torch.float64) for _ in range(3))
    exact = attention(q, k, v)
    half = [x.bfloat16() for x in (q, k, v)]
    fused, (explicit, _) = attention(*half), attention(*half, return_weights=True)
    error, allowed = (explicit - exact).abs().max(), (fused - exact).abs().max()
    assert error < 2 * allowed


def test_shapes_can_be_traced_without_memory():
    with torch.device("meta"):
        y, weights = build(score="additive")(torch.empty(2, 3, WIDTH), return_weights=True)
    assert (y.shape, weights.shape) == ((2, 3, WIDTH), (2, 4, 3, 3))


def test_modules_can_be_copied_and_saved(tmp_path):
    mha, x = build(qk_norm=True, rotary=Rotary(4)), torch.randn(1, 3, WIDTH)
    close(copy.deepcopy(mha)(x), mha(x), 0)
    other = build(qk_norm=True, rotary=Rotary(4))
    other.load_state_dict(mha.state_dict())
    close(other(x), mha(x), 0)


def test_grouped_heads_are_full_heads_with_shared_keys():
    grouped, full = build(kv_heads=2), build()
    q, k, v = grouped.input.weight.split(grouped.sizes)
    repeat = [x.view(2, 4, WIDTH).repeat_interleave(2, 0).flatten(0, 1) for x in (k, v)]
    full.input.weight.data = torch.cat([q, *repeat])
    full.output = grouped.output
    x = torch.randn(2, 5, WIDTH)
    close(grouped(x), full(x))


def test_additive_scores_by_hand():
    q, k, weight = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(2, 4)
    scores = additive(q, k, weight)
    for h in range(2):
        for i in range(3):
            for j in range(5):
                close(scores[0, h, i, j], weight[h] @ torch.tanh(q[0, h, i] + k[0, h, j]))


def test_dropout_is_for_training_only():
    mha, x = build(dropout=0.5), torch.randn(1, 5, WIDTH)
    assert not torch.equal(mha(x), mha(x))
    mha.eval()
    assert torch.equal(mha(x), mha(x))


@pytest.mark.parametrize("interleaved", [True, False])
@given(shift=st.integers(0, 500))
def test_rotary_products_depend_on_the_distance_alone(interleaved, shift):
    turn = Rotary(8, interleaved=interleaved)
    q, k = torch.randn(2, 1, 1, 8).unbind()
    here = turn(q, torch.tensor([3])) * turn(k, torch.tensor([7]))
    there = turn(q, torch.tensor([3 + shift])) * turn(k, torch.tensor([7 + shift]))
    close(here.sum(), there.sum(), 1e-4)


def test_rotary_layouts_differ_by_a_permutation_alone():
    x, positions = torch.randn(5, 2, 8), torch.arange(5)
    split = Rotary(8, interleaved=False)(x, positions)
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])  # pairs (0,4) (1,5) … laid side by side
    close(Rotary(8, interleaved=True)(x[..., order], positions), split[..., order])


def test_rotary_turns_complex_numbers():
    x, angle = torch.randn(3, 1, 6), torch.randn(3, 3)
    expected = torch.view_as_complex(x.view(3, 1, 3, 2)) * torch.exp(1j * angle)[:, None]
    close(rotate(x, angle, interleaved=True), torch.view_as_real(expected).flatten(-2))


def test_rotary_on_two_axes_sees_the_distance_in_rows_and_columns():
    grid = Padded.grid(1, 4, 5).positions[0]
    turn = Rotary(8, axes=2)
    q, k = turn(torch.randn(1, 1, 8).expand(20, 1, 8), grid), turn(torch.randn(1, 1, 8).expand(20, 1, 8), grid)
    products = (q[:, 0] @ k[:, 0].T).view(4, 5, 4, 5)
    close(products[0, 0, 1, 2], products[2, 1, 3, 3])
    assert not torch.isclose(products[0, 0, 1, 2], products[0, 0, 2, 1])
    assert grid.tolist()[:6] == [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4], [1, 0]]


def test_two_views_may_attend_to_each_other_with_rotary_positions():
    mha = build(rotary=Rotary(4, axes=2))
    a, b = torch.randn(2, 6, WIDTH), torch.randn(2, 6, WIDTH)
    grid = Padded.grid(2, 2, 3)
    assert mha(a, b, layout=grid, memory_layout=grid).shape == a.shape


def test_self_attention_is_cross_attention_to_oneself():
    mha, x = build(bias=True), torch.randn(2, 5, WIDTH)
    close(mha(x), mha(x, x))


def test_float64_stays_float64():
    q = torch.randn(1, 1, 3, 4, dtype=torch.float64)
    out, weights = attention(q, q, q, return_weights=True)
    assert out.dtype == weights.dtype == torch.float64
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 3, dtype=torch.float64), atol=1e-15, rtol=0)


@pytest.mark.plain  # where calls are traced, sizes are no numbers, which checks of shapes insist on
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_it_can_be_traced():
    attention, x = MultiHeadAttention(16, 4).eval(), torch.randn(2, 5, 16)
    assert torch.allclose(torch.jit.trace(attention, (x,))(x), attention(x))
