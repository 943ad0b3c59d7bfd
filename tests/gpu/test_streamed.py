"""On a GPU: a stream under the compiler, in a CUDA graph, and over more rows than there are programs."""

import pytest
import torch
import torch.nn.functional as F

from manyheads import Transformer, TransformerConfig
from manyheads.nn import Packed
from manyheads.nn.add_norm import add_norm
from manyheads.nn.blocks import streams
from manyheads.nn.linear_relu import relu_backward
from manyheads.nn.stream import begin
from manyheads.training.steps import compiled_blocks

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.plain,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]


def draw(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True)


def gradients(model):
    """Of everything, in the precision of a recorded step."""
    lengths = torch.arange(3, 40).tolist()
    layout = Packed.from_lengths(lengths, "cuda")
    torch.manual_seed(1)
    ids = torch.randint(1, 100, (2, sum(lengths)), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = F.cross_entropy(model(ids[0], ids[1], layout, layout).float(), ids[0])
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("normaliser", ["layer", "rms"])
def test_compiled_blocks_of_a_stream_lose_no_gradient(normaliser):
    shape = TransformerConfig(
        width=128, heads=4, layers=3, feedforward=256, norm="pre", normaliser=normaliser, dropout=0.0
    )
    model = Transformer(shape, 100).cuda()
    plain = gradients(model)
    with streams(model), compiled_blocks(model):
        streamed = gradients(model)
    for name, gradient in plain.items():
        if gradient.ndim > 1:  # the keys' bias changes nothing: its gradient is rounding alone
            assert (gradient - streamed[name]).norm() <= 0.1 * gradient.norm(), name


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("width", [512, 1000, 2048])
def test_more_rows_than_programs(width, dropout):
    rows = 7001
    x, y, weight, bias = draw(rows, width), draw(rows, width, dtype=torch.bfloat16), draw(width), draw(width)
    seed = torch.tensor(5, device="cuda")
    options = {"centred": True, "dropout": dropout, "seed": seed}
    ones = torch.ones(rows, width, device="cuda")
    kept = add_norm(torch.zeros_like(ones), ones, weight, bias, 1e-5, **options)[0].detach().double()
    with torch.autocast("cuda", torch.bfloat16):
        total, normed, _ = add_norm(x, y, weight, bias, 1e-5, **options)
    exact = [t.detach().double().requires_grad_() for t in (x, y, weight, bias)]
    expected = exact[0] + exact[1] * kept
    torch.testing.assert_close(total.double(), expected, rtol=1e-5, atol=1e-5)
    expected_normed = F.layer_norm(expected, (width,), *exact[2:])
    torch.testing.assert_close(normed.double(), expected_normed, rtol=1e-2, atol=1e-2)
    given = torch.randn_like(total), torch.randn_like(normed)
    twice = [torch.autograd.grad((total, normed), (x, y, weight, bias), given, retain_graph=True) for _ in range(2)]
    wanted = torch.autograd.grad((expected, expected_normed), exact, [g.double() for g in given])
    for mine, again, other in zip(*twice, wanted, strict=True):
        assert torch.equal(mine, again)
        assert (mine.double() - other).norm() <= (1e-2 if mine.dtype == torch.bfloat16 else 1e-4) * other.norm()


def test_a_graph_drops_what_the_seed_says():
    x, y, weight = torch.zeros(300, 64, device="cuda"), torch.ones(300, 64, device="cuda"), draw(64)
    graph = torch.cuda.CUDAGraph()

    def step():
        _, seed, *_ = begin(x)
        return add_norm(x, y, weight, None, 1e-5, centred=False, dropout=0.5, seed=seed)[0].detach()

    step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = step()
    seen = []
    for number in (1, 1, 2):
        torch.manual_seed(number)
        graph.replay()
        seen.append(out.clone())
    assert torch.equal(seen[0], seen[1])
    assert 0.4 < (seen[0] == seen[2]).double().mean() < 0.6


def test_a_relus_gradient_and_its_sums():
    gradient, y = (draw(5003, 2048, dtype=torch.bfloat16).detach() for _ in range(2))
    masked, sums = relu_backward(gradient, y.relu())
    assert torch.equal(masked, gradient * (y > 0))
    torch.testing.assert_close(sums.double(), masked.double().sum(0), rtol=1e-2, atol=1e-2)
    assert torch.equal(sums, relu_backward(gradient, y.relu())[1])
