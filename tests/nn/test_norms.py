"""The norms' own backward pass against PyTorch's. Without a GPU its kernels are interpreted (conftest.py)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

pytest.importorskip("triton")

from manyheads.nn.norms import InnerLayerNorm, InnerRMSNorm, Normalise, make_norm

pytestmark = pytest.mark.plain

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@settings(max_examples=15)
@given(st.integers(1, 700), st.sampled_from([8, 48, 64, 257]), st.booleans(), st.integers(0, 99))
def test_value_and_gradients_are_pytorchs(rows, width, centred, seed):
    torch.manual_seed(seed)
    x = (3 * torch.randn(rows, width, device=DEVICE) + 1).requires_grad_()
    parameters = [torch.randn(width, device=DEVICE, requires_grad=True) for _ in range(1 + centred)]
    bias = parameters[1] if centred else None
    y = Normalise.apply(x, parameters[0], bias, 1e-5)
    exact = [t.detach().double().requires_grad_() for t in (x, *parameters)]
    norm = nn.functional.layer_norm if centred else nn.functional.rms_norm
    expected = norm(exact[0], (width,), *exact[1:], eps=1e-5)
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-5)
    gradient = torch.randn_like(y)
    ours = torch.autograd.grad(y, (x, *parameters), gradient)
    theirs = torch.autograd.grad(expected, exact, gradient.double())
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.double() - other).norm() <= 1e-5 * other.norm() + 1e-6


def test_more_than_two_dimensions_and_half_precision():
    x = torch.randn(2, 3, 16, device=DEVICE, requires_grad=True)
    weight, bias = torch.ones(16, device=DEVICE), torch.zeros(16, device=DEVICE)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        y = Normalise.apply(x, weight, bias, 1e-5)
    assert (y.dtype, y.shape) == (torch.bfloat16, x.shape)
    (gradient,) = torch.autograd.grad(y, x, torch.randn_like(y))
    assert (gradient.dtype, gradient.shape) == (x.dtype, x.shape)


def test_it_compiles_in_one_piece():
    norm = torch.compile(lambda x, w, b: 1 * Normalise.apply(2 * x, w, b, 1e-5), backend="aot_eager", fullgraph=True)
    x, w, b = (torch.randn(shape, device=DEVICE, requires_grad=True) for shape in ((5, 8), (8,), (8,)))
    torch.testing.assert_close(norm(x, w, b), nn.functional.layer_norm(2 * x, (8,), w, b))
    norm(x, w, b).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize(
    ("kind", "ours", "theirs"), [("layer", InnerLayerNorm, nn.LayerNorm), ("rms", InnerRMSNorm, nn.RMSNorm)]
)
def test_without_a_gpu_it_is_pytorchs_bit_for_bit(kind, ours, theirs):
    norm, x = make_norm(kind, 16, 1e-5, inner=True), torch.randn(4, 16, requires_grad=True)  # on the CPU, everywhere
    assert isinstance(norm, ours)
    assert type(make_norm(kind, 16, 1e-5)) is theirs
    assert torch.equal(norm(x), theirs(16, eps=1e-5)(x))
    assert set(norm.state_dict()) == set(theirs(16).state_dict())
