"""One product with bias and maximum, against the three operations."""

import pytest
import torch
import torch.nn.functional as F

from manyheads.nn.linear_relu import linear_relu

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
