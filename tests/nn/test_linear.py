"""Products by oneDNN: the same as F.linear, with the same derivatives, and F.linear itself wherever they do not apply."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

from manyheads.nn import linear as module
from manyheads.nn.linear import Linear, linear, processor, weight_gradient

SHAPES = [(7,), (1, 7), (5, 7), (2, 3, 7), (2, 1, 3, 7)]


@pytest.fixture(autouse=True)
def onednn(monkeypatch):
    """On any processor and for products of any size, also where it is not faster."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this PyTorch was built without oneDNN")
    monkeypatch.setattr(module, "ONEDNN", True)
    monkeypatch.setattr(module, "FEWEST", 1)


@pytest.fixture
def calls(monkeypatch):
    """Products that oneDNN has computed."""
    seen, product = [], module.product
    monkeypatch.setattr(module, "product", lambda *given: seen.append(given) or product(*given))
    return seen


def given(shape, bias=True, dtype=torch.float32):
    torch.manual_seed(sum(shape))
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(11, 7, dtype=dtype)
    return [t.requires_grad_() for t in (x, weight, *([torch.randn(11, dtype=dtype)] if bias else []))]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_product_and_its_gradients_are_those_of_float64(shape, bias, calls):
    tensors = given(shape, bias)
    wide = [t.detach().double().requires_grad_() for t in tensors]
    y, expected = linear(*tensors), F.linear(*wide)
    assert y.dtype == torch.float32
    assert torch.allclose(y.double(), expected, atol=1e-5)
    gradient = torch.randn_like(expected)
    ours = torch.autograd.grad(y, tensors, gradient.float())
    for one, other in zip(ours, torch.autograd.grad(expected, wide, gradient), strict=True):
        assert torch.allclose(one.double(), other, atol=1e-5)
    assert len(calls) == 3  # forward, by x, by W


def test_gradients_have_gradients():
    (x, weight), wide = given((5, 7), bias=False), given((5, 7), bias=False, dtype=torch.float64)
    for one, other in zip(wide, (x, weight), strict=True):
        one.data.copy_(other.data)

    def penalty(product, x, weight):
        by_x, by_weight = torch.autograd.grad(product(x, weight).tanh().sum(), (x, weight), create_graph=True)
        return torch.autograd.grad(by_x.square().sum() + by_weight.square().sum(), (x, weight))

    for one, other in zip(penalty(linear, x, weight), penalty(F.linear, *wide), strict=True):
        assert torch.allclose(one.double(), other, atol=1e-4)


def test_forward_derivatives():
    tensors = [t.detach() for t in given((5, 7))]
    tangents = [torch.randn_like(t) for t in tensors]
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(tensors, tangents, strict=True)]
        ours, theirs = (forward_ad.unpack_dual(product(*duals)).tangent for product in (linear, F.linear))
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_only_the_gradients_that_are_asked_for_are_computed(calls):
    x, weight, bias = given((5, 7))
    linear(x.detach(), weight, bias.detach()).sum().backward()
    assert x.grad is None
    assert len(calls) == 2


@pytest.mark.parametrize("widths", [(11, 7), (7, 11)])
def test_the_gradient_of_weights_copies_the_narrower_factor(widths, calls):
    gradient, x = torch.randn(5, widths[0]), torch.randn(5, widths[1])
    assert torch.allclose(weight_gradient(gradient, x), gradient.T @ x, atol=1e-5)
    assert calls[0][0].shape == (7, 5)


def test_factors_may_be_views():
    x, weight = torch.randn(7, 6, 5).transpose(0, 2), torch.randn(7, 22).T[3:14]
    assert torch.allclose(linear(x, weight), F.linear(x, weight), atol=1e-5)


def test_a_row_does_not_depend_on_the_rows_beside_it():
    x, weight = torch.randn(40, 64), torch.randn(100, 64)
    together = linear(x, weight)
    for rows in (2, 3, 5, 8, 17, 32):
        assert torch.allclose(linear(x[:rows], weight), together[:rows], atol=1e-5)


def test_a_layer_is_one_of_pytorchs():
    layer = Linear(7, 11)
    theirs = torch.nn.Linear(7, 11)
    theirs.load_state_dict(layer.state_dict())
    x = torch.randn(5, 7)
    assert isinstance(layer, torch.nn.Linear)
    assert torch.allclose(layer(x), theirs(x), atol=1e-6)


UNSUITED = {
    "float64": lambda: (torch.randn(5, 7).double(), torch.randn(11, 7).double()),
    "bfloat16": lambda: (torch.randn(5, 7).bfloat16(), torch.randn(11, 7).bfloat16()),
    "nothing": lambda: (torch.randn(0, 7), torch.randn(11, 7)),
    "no memory": lambda: (torch.randn(5, 7, device="meta"), torch.randn(11, 7, device="meta")),
}


@pytest.mark.parametrize("name", UNSUITED)
def test_what_does_not_suit_is_left_to_pytorch(name, calls):
    x, weight = UNSUITED[name]()
    assert linear(x, weight).shape == (len(x), 11)
    assert calls == []


def test_autocast_goes_before(calls):
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(torch.randn(5, 7), torch.randn(11, 7)).dtype == torch.bfloat16
    assert calls == []


def test_small_products_are_left_to_pytorch(calls, monkeypatch):
    monkeypatch.setattr(module, "FEWEST", 5 * 7 * 11)
    x, weight, _ = (t.detach() for t in given((5, 7)))
    linear(x[:4], weight)
    assert calls == []
    linear(x, weight)
    assert len(calls) == 1


def test_it_can_be_turned_off(calls):
    with torch.backends.mkldnn.flags(enabled=False):
        linear(torch.randn(5, 7), torch.randn(11, 7))
    assert calls == []


def test_who_watches_or_transforms_sees_what_pytorch_computes(calls):
    x, weight = torch.randn(5, 7), torch.randn(11, 7)
    with FlopCounterMode(display=False) as counter:
        linear(x, weight)
    assert counter.get_total_flops() == 2 * 5 * 7 * 11
    assert torch.allclose(torch.vmap(lambda row: linear(row, weight))(x), F.linear(x, weight), atol=1e-5)
    assert calls == []


@pytest.mark.plain
def test_shapes_that_do_not_fit_are_refused_as_pytorch_refuses_them():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear(torch.randn(5, 8), torch.randn(11, 7))


@pytest.mark.parametrize(
    ("said", "is_faster"), [("vendor_id\t: AuthenticAMD", True), ("vendor_id\t: GenuineIntel", False)]
)
def test_which_processors_gain(said, is_faster, monkeypatch):
    monkeypatch.setattr(module, "processor", lambda: said)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert module.is_faster() == is_faster


def test_without_mkl_there_is_nothing_to_gain(monkeypatch):
    monkeypatch.setattr(module, "processor", lambda: "vendor_id\t: AuthenticAMD")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert not module.is_faster()


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="needs Linux")
def test_only_the_first_processor_is_asked():
    assert processor() in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    assert processor().count("processor\t:") <= 1
