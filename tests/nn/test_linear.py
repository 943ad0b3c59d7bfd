"""Products by oneDNN: the same as F.linear, with the same derivatives, and F.linear itself wherever they do not apply."""

import os
import subprocess
import sys
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
    monkeypatch.setattr(module, "FEWEST_OF_FEW", 1)


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
    assert len(calls) == (0 if len(shape) == 1 else 3)  # forward, by x, by W


def test_gradients_have_gradients():
    (x, weight), wide = given((5, 7), bias=False), given((5, 7), bias=False, dtype=torch.float64)
    for one, other in zip(wide, (x, weight), strict=True):
        one.data.copy_(other.data)

    def penalty(product, x, weight):
        by_x, by_weight = torch.autograd.grad(product(x, weight).tanh().sum(), (x, weight), create_graph=True)
        return torch.autograd.grad(by_x.square().sum() + by_weight.square().sum(), (x, weight))

    for one, other in zip(penalty(linear, x, weight), penalty(F.linear, *wide), strict=True):
        assert torch.allclose(one.double(), other, atol=1e-4)


@pytest.mark.parametrize("grad", [True, False])
def test_forward_derivatives(grad):
    tensors = [t.detach() for t in given((5, 7))]
    tangents = [torch.randn_like(t) for t in tensors]
    with forward_ad.dual_level(), torch.set_grad_enabled(grad):
        duals = [forward_ad.make_dual(*pair) for pair in zip(tensors, tangents, strict=True)]
        ours, theirs = (forward_ad.unpack_dual(product(*duals)).tangent for product in (linear, F.linear))
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_only_the_gradients_that_are_asked_for_are_computed(calls):
    x, weight, bias = given((5, 7))
    linear(x.detach(), weight, bias.detach()).sum().backward()
    assert x.grad is None
    assert len(calls) == 2


WHO_LEARNS = {"x": (0,), "W": (1,), "b": (2,), "x, b": (0, 2), "all": (0, 1, 2)}


@pytest.mark.parametrize("who", WHO_LEARNS)
def test_what_waits_for_the_backward_pass_is_what_pytorch_keeps(who):
    def kept(product):
        tensors = [t.detach().requires_grad_(n in WHO_LEARNS[who]) for n, t in enumerate(given((5, 7)))]
        waiting = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: waiting.append(t.numel()) or t, lambda t: t):
            product(*tensors)
        return sorted(waiting)

    assert kept(linear) == kept(F.linear)


def test_the_output_may_be_changed_in_place():
    tensors = given((2, 3, 7))
    ours, theirs = (torch.autograd.grad(product(*tensors).mul_(2).sum(), tensors) for product in (linear, F.linear))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_without_memory_for_code_pytorch_computes(monkeypatch):
    def too_little(*_):
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", too_little)
    tensors = given((5, 7))
    y = linear(*tensors)
    assert torch.equal(y, F.linear(*tensors))
    y.sum().backward()
    assert torch.equal(tensors[2].grad, torch.full((11,), 5.0))


def test_other_errors_are_raised(monkeypatch):
    def gone(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", gone)
    with pytest.raises(RuntimeError, match="allocate"):
        linear(*given((5, 7)))


BIASES = {
    "expanded": lambda: torch.randn(1).expand(11),
    "every other": lambda: torch.randn(22)[::2],
    "a column": lambda: torch.randn(11, 3)[:, 1],
    "one for all": lambda: torch.randn(1),
    "a row": lambda: torch.randn(1, 11),
}


@pytest.mark.plain
@pytest.mark.parametrize("name", BIASES)
def test_an_odd_bias_is_left_to_pytorch(name, calls):
    x, weight, bias = torch.randn(5, 7), torch.randn(11, 7), BIASES[name]()
    assert torch.equal(linear(x, weight, bias), F.linear(x, weight, bias))
    assert calls == []


def test_a_vector_of_weights_is_left_to_pytorch(calls):
    assert F.linear(torch.ones(2, 7), torch.ones(7)).tolist() == [7, 7]
    with torch.no_grad():
        assert not module.suits(torch.ones(2, 7), torch.ones(7), None)


SIZES = """
import resource, torch
from manyheads.nn import linear as module
module.ONEDNN, module.FEWEST, module.FEWEST_OF_FEW = True, 1, 1
module.keep_less_code()
layer = module.Linear(256, 256)
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20
with torch.no_grad():
    layer(torch.zeros(2, 256))
    before = held()
    for rows in range(3, 600):
        layer(torch.zeros(rows, 256))
print(held() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory that is held")
def test_code_for_many_sizes_is_not_kept():
    """PyTorch would keep 0.6 MB for each size."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_CACHE_CAPACITY")}
    done = subprocess.run([sys.executable, "-c", SIZES], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 200


def test_what_is_set_by_hand_stays():
    environment = {"LRU_CACHE_CAPACITY": "7"}
    module.keep_less_code(environment)
    assert environment == {"LRU_CACHE_CAPACITY": "7", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": str(module.CODE_KEPT)}
    environment = {module.OLDER_NAME: "7"}
    module.keep_less_code(environment)
    assert environment == {module.OLDER_NAME: "7", "LRU_CACHE_CAPACITY": str(module.KEPT_BY_THREAD)}


@pytest.mark.parametrize("widths", [(11, 7), (7, 11)])
def test_the_gradient_of_weights_copies_the_narrower_factor(widths, calls):
    gradient, x = torch.randn(5, widths[0]), torch.randn(5, widths[1])
    assert torch.allclose(weight_gradient(gradient, x), gradient.T @ x, atol=1e-5)
    assert calls[0][0].shape == (7, 5)


def test_factors_may_be_views():
    x, weight = torch.randn(7, 6, 5).transpose(0, 2), torch.randn(7, 22).T[3:14]
    assert torch.allclose(linear(x, weight), F.linear(x, weight), atol=1e-5)


def test_a_row_is_what_it_is_beside_other_rows_but_for_rounding():
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


@pytest.mark.parametrize(("bound", "few"), [("FEWEST", 3), ("FEWEST_OF_FEW", 5)])
def test_small_products_are_left_to_pytorch(bound, few, calls, monkeypatch):
    monkeypatch.setattr(module, "FEW_ROWS", few)
    monkeypatch.setattr(module, bound, 5 * 7 * 11)
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


def by_rows(product, x, weight):
    y = product(x, weight)
    return torch.autograd.grad(y, weight, torch.eye(y.numel()).view(-1, *y.shape), is_grads_batched=True)[0]


ODD = {
    "gradients in batches": lambda product: by_rows(product, torch.ones(2, 7), torch.ones(11, 7, requires_grad=True)),
    "ragged rows": lambda product: product(
        torch.nested.nested_tensor([torch.ones(2, 7), torch.ones(3, 7)]), torch.ones(11, 7)
    ).to_padded_tensor(0.0),
    "sparse weights": lambda product: product(torch.ones(2, 7), torch.eye(11, 7).to_sparse_csr()),
    "traced": lambda product: torch.fx.symbolic_trace(lambda x: product(x, torch.ones(11, 7)))(torch.ones(2, 7)),
}


@pytest.mark.plain
@pytest.mark.parametrize("name", ODD)
@pytest.mark.filterwarnings("ignore")
def test_what_it_does_not_take_is_left_to_pytorch(name):
    assert torch.equal(ODD[name](linear), ODD[name](F.linear))


def test_memory_that_overlaps():
    """Frames of sound, say: oneDNN takes it as the left factor only."""
    frames, gradients = torch.randn(400).unfold(0, 40, 16), []
    for kind in (Linear, torch.nn.Linear):
        torch.manual_seed(1)
        layer = kind(40, 11)
        layer(frames).square().sum().backward()
        gradients.append(layer.weight.grad)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
