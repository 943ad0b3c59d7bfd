"""Attention in slices: what the kernel computes in float32, rounded, however the batch is cut."""

from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from manyheads.nn import attention, causal_mask
from manyheads.nn import sliced as module
from manyheads.nn.fused import in_one_kernel
from manyheads.nn.sliced import SHORT, in_slices, slices_apply

BATCH, HEADS, QUERIES, KEYS, WIDTH = 7, 4, 6, 9, 8

MASKS = {
    "none": None,
    "keys": torch.rand(BATCH, 1, 1, KEYS) < 0.7,
    "all axes": torch.rand(BATCH, HEADS, QUERIES, KEYS) < 0.7,
    "same for all sentences": torch.rand(QUERIES, KEYS) < 0.7,
    "a query with nothing": (torch.arange(BATCH) != 3)[:, None, None, None].expand(-1, 1, QUERIES, KEYS),
}
GROUPS = {"heads": HEADS, "grouped heads": 2}


@pytest.fixture
def small_slices(monkeypatch):
    """Two sentences at a time, one in the last slice."""
    monkeypatch.setattr(module, "SLICE", 2 * HEADS * QUERIES * WIDTH // torch.get_num_threads())


def given(groups=HEADS, keys=KEYS, value_width=WIDTH, dtype=torch.bfloat16):
    """Queries, keys and values as projections leave them, heads last but one in memory."""
    torch.manual_seed(1)
    shapes = (BATCH, QUERIES, HEADS, WIDTH), (BATCH, keys, groups, WIDTH), (BATCH, keys, groups, value_width)
    return [torch.randn(shape).to(dtype).transpose(1, 2).requires_grad_() for shape in shapes]


def results(attend, tensors):
    out = attend(*tensors)
    gradient = torch.linspace(-1, 1, out.numel()).view(out.shape)
    return [out, *torch.autograd.grad(out, tensors, gradient.to(out.dtype))]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("groups", GROUPS)
def test_it_is_float32_rounded(mask, groups, small_slices):
    kernel = partial(in_one_kernel, window=(None, None), scale=None)
    tensors = given(GROUPS[groups])
    ours = results(lambda *qkv: in_slices(kernel, *qkv, MASKS[mask]), tensors)
    wide = [t.detach().float().requires_grad_() for t in tensors]
    expected = results(lambda *qkv: kernel(*qkv, MASKS[mask]).bfloat16(), wide)
    for one, other in zip(ours, expected, strict=True):
        assert one.dtype == torch.bfloat16
        assert one.isfinite().all()
        assert torch.equal(one, other.bfloat16())


@pytest.mark.parametrize("mask", MASKS)
def test_it_is_the_formula(mask, small_slices):
    tensors = given()
    assert slices_apply(*tensors, 0.0)
    ours = results(partial(attention, mask=MASKS[mask]), tensors)
    exact = results(partial(attention, mask=MASKS[mask]), [t.detach().double().requires_grad_() for t in tensors])
    for one, other in zip(ours, exact, strict=True):
        assert torch.allclose(one.double(), other, atol=0.02, rtol=0.01)


def test_causal_attention(small_slices):
    tensors = given(keys=QUERIES)
    ours = results(partial(attention, causal=True), tensors)
    for one, other in zip(ours, results(partial(attention, mask=causal_mask(QUERIES)), tensors), strict=True):
        assert torch.equal(one, other)


def test_nobody_has_to_come(small_slices):
    tensors = [t.detach()[:0].requires_grad_() for t in given()]
    assert [x.shape[0] for x in results(attention, tensors)] == [0, 0, 0, 0]


def test_only_what_was_given_waits_for_the_backward_pass(small_slices):
    waiting, tensors = [], given()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: waiting.append(x) or x, lambda x: x):
        attention(*tensors)
    assert [x.data_ptr() for x in waiting] == [x.data_ptr() for x in tensors]


def test_under_autocast_it_is_as_precise_as_without_mixing(small_slices):
    tensors = given(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert slices_apply(*tensors, 0.0)
        ours = results(attention, tensors)
    rounded = [t.detach().bfloat16().requires_grad_() for t in tensors]
    for one, other in zip(ours, results(attention, rounded), strict=True):
        assert torch.equal(one.bfloat16(), other)
    assert ours[0].dtype == torch.bfloat16
    assert ours[1].dtype == torch.float32


@pytest.mark.parametrize(("given_as", "under"), [(torch.float16, torch.bfloat16), (torch.bfloat16, torch.float16)])
def test_autocast_decides_between_halves(given_as, under):
    tensors = given(dtype=given_as)
    with torch.autocast("cpu", under):
        assert attention(*tensors).dtype == under


def test_the_output_may_be_changed_in_place(small_slices):
    tensors = given()
    out = attention(*tensors)
    (expected,) = torch.autograd.grad(2 * out, tensors[:1], torch.ones_like(out), retain_graph=True)
    changed = attention(*tensors).transpose(1, 2).flatten(2)
    changed.mul_(2)
    (one,) = torch.autograd.grad(changed, tensors[:1], torch.ones_like(changed))
    assert torch.equal(one, expected)


@pytest.mark.plain
def test_a_length_that_varies_can_be_exported():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.ones(()).bfloat16())

        def forward(self, q, k, v):
            return attention(q * self.factor, k, v)

    q, k, v = (t.detach().contiguous() for t in given())
    length = torch.export.Dim("S", min=2, max=4096)
    exported = torch.export.export(Layer(), (q, k, v), dynamic_shapes=({}, {2: length}, {2: length})).module()
    longer = torch.randn(BATCH, HEADS, SHORT + 9, WIDTH).bfloat16()
    assert exported(q, longer, longer).shape == q.shape


@pytest.mark.plain
def test_keys_for_other_sentences_are_left_to_pytorch():
    q, k, v = given()
    assert not slices_apply(q, k[:1], v[:1], 0.0)


def test_where_it_applies():
    q, k, v = given()
    assert slices_apply(q, k, v, 0.0)
    assert slices_apply(*given(keys=SHORT), 0.0)
    assert not slices_apply(*given(keys=SHORT + 1), 0.0)
    assert not slices_apply(*given(value_width=WIDTH + 1), 0.0)
    assert not slices_apply(q, k, v, 0.1)
    assert not slices_apply(q.detach(), k.detach(), v, 0.0)
    assert not slices_apply(q.float(), k.float(), v.float(), 0.0)
    with torch.no_grad():
        assert not slices_apply(q, k, v, 0.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert not slices_apply(q.double(), k.double(), v.double(), 0.0)
    with FlopCounterMode(display=False):
        assert not slices_apply(q, k, v, 0.0)


@pytest.mark.plain
def test_a_gradient_of_its_gradient_is_refused_or_left_to_pytorch():
    """It would be taken for a constant, and a penalty on it would change nothing."""
    q, k, v = given()

    def penalised():
        (by_q,) = torch.autograd.grad(attention(q, k, v).float().square().sum(), q, create_graph=True)
        return torch.autograd.grad(by_q.float().square().sum(), k)[0]

    with pytest.raises(RuntimeError, match="attention in half precision on a CPU has no second derivative"):
        penalised()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert not slices_apply(q, k, v, 0.0)
        assert penalised().any()
