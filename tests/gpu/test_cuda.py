"""On a GPU: every kernel that may be chosen gives the explicit path's answer, also where nothing may be seen."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from manyheads import Transformer, TransformerConfig
from manyheads.nn import Packed, attention, explicit_attention, packed_attention
from manyheads.nn.packed import varlen_applies
from manyheads.nn.scores import scaled_dot

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.plain,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def random(*shape, dtype, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed + sum(shape))
    return torch.randn(shape, device="cuda", dtype=torch.float32, generator=generator).to(dtype).requires_grad_()


def reference(q, k, v, **options):
    """The explicit path in double precision."""
    return attention(q.double(), k.double(), v.double(), return_weights=True, **options)[0]


def assert_same(ours, expected, inputs, dtype):
    tolerance = TOLERANCE[dtype]
    weight = torch.linspace(-1, 1, ours.numel(), device="cuda").view(ours.shape)
    torch.testing.assert_close(ours.double(), expected, atol=tolerance, rtol=tolerance)
    grads = torch.autograd.grad((ours.float() * weight).sum(), inputs, retain_graph=True)
    wanted = torch.autograd.grad((expected * weight).sum(), inputs, retain_graph=True)
    for a, b in zip(grads, wanted, strict=True):
        assert a.isfinite().all()
        scale = b.float().abs().max().clamp(min=1.0)
        assert (a.float() - b.float()).abs().max() <= 2 * tolerance * scale


@pytest.mark.parametrize("backend", [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], ids=lambda b: b.name)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", [(2, 4, 33, 47, 64), (3, 2, 5, 5, 32), (1, 8, 128, 64, 128)], ids=str)
def test_queries_without_keys_on_every_backend_that_takes_a_mask(backend, dtype, shape):
    batch, heads, queries, keys, width = shape
    q, k, v = (random(batch, heads, n, width, dtype=dtype) for n in (queries, keys, keys))
    mask = (
        torch.rand(batch, heads, queries, keys, device="cuda", generator=torch.Generator("cuda").manual_seed(1)) < 0.4
    )
    mask[0, :, 1] = mask[:, 0, :3] = mask[-1, -1] = False
    with sdpa_kernel(backend):
        out = attention(q, k, v, mask=mask)
    assert (out[~mask.any(-1)] == 0).all()
    assert_same(out, reference(q, k, v, mask=mask), (q, k, v), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window": (3, 2)}, {"causal": True, "window": (5, None)}], ids=str
)
@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("padding", [False, True])
def test_fused_equals_explicit(dtype, options, groups, padding):
    q = random(3, 8, 41, 64, dtype=dtype)
    k, v = (random(3, groups, 41, 64, dtype=dtype, seed=s) for s in (1, 2))
    keep = torch.arange(41, device="cuda") < torch.tensor([41, 7, 0], device="cuda")[:, None]
    mask = keep[:, None, None, :] if padding else None
    out = attention(q, k, v, mask=mask, **options)
    assert_same(out, reference(q, k, v, mask=mask, **options), (q, k, v), dtype)


LENGTHS = [([5, 17, 1, 64], [5, 17, 1, 64]), ([5, 17, 1, 64], [9, 3, 30, 2]), ([4, 6, 0, 0], [7, 0, 3, 0])]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window": (3, 2)}, {"causal": True, "window": (5, None)}], ids=str
)
@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("lengths", LENGTHS, ids=["same", "cross", "empty segments"])
def test_packed_equals_explicit(dtype, options, groups, lengths):
    queries, keys = (
        Packed.from_offsets(torch.tensor([0, *n], device="cuda").cumsum(0), sum(n), max(n)) for n in lengths
    )
    q = random(sum(lengths[0]), 8, 64, dtype=dtype)
    k, v = (random(sum(lengths[1]), groups, 64, dtype=dtype, seed=s) for s in (1, 2))
    assert varlen_applies(q, v) == (dtype != torch.float32)
    out = packed_attention(q, k, v, queries=queries, keys=keys, **options)
    expected = packed_attention(
        q.double(), k.double(), v.double(), queries=queries, keys=keys, return_weights=True, **options
    )[0]
    assert_same(out, expected, (q, k, v), dtype)


@pytest.mark.parametrize("width", [16, 20, 64, 96, 256, 264])
def test_packed_at_any_head_width(width):
    layout = Packed.from_lengths([9, 30], "cuda")
    q, k, v = (random(39, 2, width, dtype=torch.bfloat16, seed=s) for s in range(3))
    out = packed_attention(q, k, v, queries=layout, keys=layout)
    expected = packed_attention(q.double(), k.double(), v.double(), queries=layout, keys=layout, return_weights=True)[0]
    assert_same(out, expected, (q, k, v), torch.bfloat16)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_the_packed_model_says_what_the_padded_one_says(compiled, positions):
    torch.manual_seed(0)
    config = TransformerConfig(width=128, heads=4, layers=3, feedforward=256, norm="pre", positions=positions)
    exact = Transformer(config, 100).cuda().eval()
    half = Transformer(config, 100).cuda().eval()
    half.load_state_dict(exact.state_dict())
    half.bfloat16()
    run = torch.compile(half, fullgraph=True) if compiled else half
    s, t = Packed.from_lengths([9, 30, 4], "cuda"), Packed.from_lengths([12, 25, 2], "cuda")
    source, target = torch.randint(1, 100, (43,), device="cuda"), torch.randint(1, 100, (39,), device="cuda")
    packed = run(source, target, s, t).float()
    padded = t.pack(half(s.pad(source), t.pad(target))).float()
    expected = t.pack(exact(s.pad(source), t.pad(target)))
    scale = expected.abs().max()
    assert (packed - expected).abs().max() < 0.03 * scale
    assert (padded - expected).abs().max() < 0.03 * scale


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_explicit_path_on_half_precision(dtype):
    q, k, v = (random(2, 4, 33, 64, dtype=dtype, seed=s) for s in range(3))
    out, weights = explicit_attention(q, k, v, score=scaled_dot)
    assert_same(out, reference(q, k, v), (q, k, v), dtype)
    torch.testing.assert_close(weights.float().sum(-1), torch.ones(2, 4, 33, device="cuda"), atol=2e-2, rtol=0)


def test_a_captured_packed_step_can_be_replayed():
    """Fixed sizes, other lengths, empty segments: one CUDA graph serves them all."""
    q, k, v = (random(64, 4, 32, dtype=torch.bfloat16, seed=s).detach() for s in range(3))
    offsets = torch.tensor([0, 10, 30, 64, 64], device="cuda", dtype=torch.int32)

    def step():
        layout = Packed.from_offsets(offsets, tokens=64, longest=64)
        return packed_attention(q, k, v, queries=layout, keys=layout, causal=True)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    for lengths in ([10, 20, 34, 0], [1, 1, 1, 61], [64, 0, 0, 0]):
        offsets.copy_(torch.tensor([0, *lengths], device="cuda").cumsum(0))
        graph.replay()
        torch.testing.assert_close(out, step(), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("packed", [False, True])
def test_a_training_step_never_waits_for_the_gpu(packed):
    config = TransformerConfig(
        width=128, heads=4, layers=2, feedforward=256, norm="pre", drop_path=0.1, positions="rotary"
    )
    model = Transformer(config, 100).cuda().bfloat16()
    layout = Packed.from_lengths([9, 30, 4], "cuda")
    ids = torch.randint(1, 100, (43,), device="cuda")
    padded = layout.pad(ids)
    torch.cuda.set_sync_debug_mode("error")
    try:
        logits = model(ids, ids, layout, layout) if packed else model(padded, padded)
        logits.float().square().mean().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_narrow_windows_in_chunks():
    q, k, v = (random(2, 4, 700, 64, dtype=torch.bfloat16, seed=s) for s in range(3))
    mask = (torch.arange(700, device="cuda") < torch.tensor([700, 300], device="cuda")[:, None])[:, None, None]
    out = attention(q, k, v, mask=mask, window=(20, 9))
    assert_same(out, reference(q, k, v, mask=mask, window=(20, 9)), (q, k, v), torch.bfloat16)


@pytest.mark.parametrize("packed", [False, True])
def test_query_key_norm_under_autocast_stays_on_the_fast_path(packed):
    """Autocast normalises in float32; queries and keys must come back to half precision."""
    config = TransformerConfig(width=128, heads=4, layers=2, feedforward=256, norm="pre", qk_norm=True)
    model = Transformer(config, 100).cuda().eval()
    layout = Packed.from_lengths([9, 30, 4], "cuda")
    ids = torch.randint(1, 100, (43,), device="cuda")
    given = (ids, ids, layout, layout) if packed else (layout.pad(ids), layout.pad(ids))
    exact = model(*given)
    with torch.autocast("cuda", torch.bfloat16), torch.profiler.profile() as profile:
        half = model(*given).float()
    inside = slice(None) if packed else layout.padded().keep
    assert (half - exact)[inside].abs().max() < 0.05 * exact.abs().max()
    if packed:
        kernels = {event.key for event in profile.key_averages()}
        assert "forward" in kernels or any("flash_attention" in kernel for kernel in kernels)  # ours, or PyTorch's


def test_a_compiled_mask_with_queries_that_see_nothing():
    q, k, v = (random(2, 4, 24, 64, dtype=torch.bfloat16, seed=s) for s in range(3))
    mask = torch.ones(2, 1, 24, 24, dtype=torch.bool, device="cuda")
    mask[0, :, 3], mask[1] = False, False
    compiled = torch.compile(attention, fullgraph=True)
    out = compiled(q, k, v, mask=mask)
    assert (out[~mask.expand(2, 4, 24, 24).any(-1)] == 0).all()
    assert_same(out, reference(q, k, v, mask=mask), (q, k, v), torch.bfloat16)


def test_cudnn_is_as_it_was_afterwards():
    before = torch.backends.cuda.cudnn_sdp_enabled()
    q = random(1, 2, 8, 64, dtype=torch.bfloat16)
    attention(q, q, q, mask=torch.ones(8, 8, dtype=torch.bool, device="cuda"))
    assert torch.backends.cuda.cudnn_sdp_enabled() == before


def test_masked_grouped_heads_need_no_more_memory_than_full_ones():
    """The one kernel that takes both a mask and grouped heads holds all scores."""
    q, (k, v) = (
        random(4, 16, 1024, 64, dtype=torch.bfloat16),
        (random(4, 4, 1024, 64, dtype=torch.bfloat16) for _ in range(2)),
    )
    mask = torch.ones(4, 1, 1, 1024, dtype=torch.bool, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.no_grad():
        attention(q, k, v, mask=mask)
    assert torch.cuda.max_memory_allocated() - before < 64 * 2**20  # all scores would be 128 MiB, twice
