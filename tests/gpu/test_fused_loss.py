"""On a GPU: the loss fused with the product before it against the plain one, in bfloat16, also recorded in a graph."""

from types import SimpleNamespace

import pytest
import torch

from manyheads.recipe import TrainConfig
from manyheads.tasks.consistency import choose_loss

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.plain,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]

CONFIGS = {"plain": TrainConfig(), "simcut": TrainConfig(simcut=3.0), "rdrop": TrainConfig(rdrop=5.0)}
SHAPES = [(4096, 10_000, 512), (1000, 8_001, 256), (513, 30, 64), (700, 40_000, 128)]


def draw(name, tokens, words, width):
    torch.manual_seed(0)
    rows = tokens * (1 if name == "plain" else 2)
    x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = (3 * torch.randn(words, width, device="cuda") / width**0.5).requires_grad_()
    labels = torch.randint(1, words, (tokens,), device="cuda")
    labels[-tokens // 10 :] = 0
    return x, weight, labels


def fused(name, x, weight, labels):
    from manyheads.nn.vocabulary_loss import vocabulary_loss

    loss = choose_loss(CONFIGS[name])
    with torch.autocast("cuda", torch.bfloat16):
        return vocabulary_loss(x, weight, labels, loss.smoothing, loss.terms) / len(labels)


def plain(name, x, weight, labels):
    with torch.autocast("cuda", torch.bfloat16):
        return choose_loss(CONFIGS[name]).judged(
            torch.nn.functional.linear(x, weight), SimpleNamespace(labels=labels)
        ) / len(labels)


def with_gradients(loss, name, x, weight, labels):
    value = loss(name, x, weight, labels)
    return [value.detach(), *torch.autograd.grad(value, (x, weight))]


def relative(ours, expected):
    return ((ours - expected).double().norm() / expected.double().norm()).item()


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_plain_loss_but_for_rounding(name, shape, monkeypatch):
    from manyheads.nn import vocabulary_loss as module

    monkeypatch.setattr(module, "LOGITS", 3_000_000)  # several shares
    given = draw(name, *shape)
    ours, theirs = (with_gradients(loss, name, *given) for loss in (fused, plain))
    for one, other, tolerance in zip(ours, theirs, (1e-4, 1e-2, 1e-2), strict=True):
        assert relative(one, other) < tolerance
    again = with_gradients(fused, name, *given)
    assert all(torch.equal(one, other) for one, other in zip(ours, again, strict=True))


@pytest.mark.parametrize("name", CONFIGS)
def test_recorded_in_a_graph_it_judges_what_it_is_given(name):
    x, weight, labels = draw(name, 512, 2_000, 128)
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        with_gradients(fused, name, x, weight, labels)
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = with_gradients(fused, name, x, weight, labels)
    with torch.no_grad():
        x.copy_(torch.randn_like(x))
        labels.copy_(labels.roll(7))
    graph.replay()
    for one, other in zip(recorded, with_gradients(fused, name, x, weight, labels), strict=True):
        assert torch.equal(one, other)


def test_more_than_two_thousand_million_logits():
    """Places beyond 31 bits, if a share is let be that large."""
    from manyheads.nn import vocabulary_loss as module

    words, tokens = 64_000, 35_000
    logits = torch.zeros(1, tokens, words, device="cuda", dtype=torch.bfloat16)
    labels = torch.ones(tokens, device="cuda", dtype=torch.long)
    losses = torch.empty(tokens, device="cuda")
    module.judge_logits(logits, labels, losses, words, 0.0, module.Terms(), 0, None)
    torch.testing.assert_close(losses, torch.full_like(losses, words).log())
    torch.testing.assert_close(
        logits[0, -1, :2].float().cpu(), torch.tensor([1 / words, 1 / words - 1]), rtol=1e-2, atol=0
    )
