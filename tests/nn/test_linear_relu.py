"""One product with bias and maximum, against the three operations. Without a GPU the kernel of its gradient is interpreted (conftest.py)."""

import pytest
import torch
import torch.nn.functional as F

from manyheads.nn import linear_relu as module
from manyheads.nn.linear_relu import linear_relu, relu_backward_in_one_pass

pytestmark = pytest.mark.plain


def draw(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def test_value_and_gradient():
    torch.manual_seed(0)
    x, weight, bias = draw(3, 5, 8), draw(6, 8), draw(6)
    assert torch.equal(linear_relu(x, weight, bias), F.relu(F.linear(x, weight, bias)))
    assert torch.autograd.gradcheck(linear_relu, (x, weight, bias))


def test_autocast_is_obeyed():
    x, weight, bias = (t.detach().float() for t in (draw(4, 8), draw(6, 8), draw(6)))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear_relu(x, weight, bias).dtype == torch.bfloat16
    assert linear_relu(x, weight, bias).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("tokens", "hidden"), [(1, 3), (37, 257), (300, 512)])
@pytest.mark.parametrize("programs", [2, 1056])
def test_gradient_and_its_sums_in_one_pass(dtype, tokens, hidden, programs, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(module, "PROGRAMS", programs)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gradient, y = (torch.randn(tokens, hidden, device=device, dtype=dtype) for _ in range(2))
    masked, sums = relu_backward_in_one_pass(gradient, y.relu())
    assert torch.equal(masked, gradient * (y > 0))
    tolerance = torch.finfo(dtype).eps * 4
    torch.testing.assert_close(
        sums.double(), masked.double().sum(0), rtol=tolerance, atol=32 * torch.finfo(torch.float32).eps
    )
    assert sums.dtype == dtype
