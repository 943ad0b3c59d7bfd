"""On a GPU: an update that is recorded once and replayed is the update of torch's kernels, call by call."""

import pytest
import torch

from manyheads import Transformer, TransformerConfig
from manyheads.tasks.translate import PairBatch
from manyheads.training.average import MovingAverage
from manyheads.training.capturable import TorchUpdate, choose_update
from manyheads.training.optimizer import build_optimizer, update

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.plain,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]

STEPS, BAD = 20, 7
WORDS = 211


def build(kind):
    torch.manual_seed(3)
    config = TransformerConfig(width=64, layers=2, heads=4, feedforward=200, dropout=0.0)
    model = Transformer(config, WORDS).cuda()
    model.encoder.blocks[0].requires_grad_(False)
    return model, build_optimizer(model, 0.0, 0.1, kind), MovingAverage(model, 0.99)


def rate_of(step):
    return 1e-3 * (1 + step % 5)


def ids_of(step):
    return torch.randint(3, WORDS, (2, 8, 12), generator=torch.Generator().manual_seed(step)).cuda()


def learn(model, ids, scale):
    """A loss whose gradients are NaN if the scale is."""
    (model(ids[0], ids[1]).square().mean() * scale).backward()


def eagerly(kind):
    model, optimizer, average = build(kind)
    outcomes = []
    for step in range(1, STEPS + 1):
        learn(model, ids_of(step), float("nan") if step == BAD else 30.0)
        outcomes.append(update(optimizer, list(model.parameters()), rate_of(step), 1.0))
        average.update(step)
    return model, optimizer, average, torch.tensor([[n.item(), s.item()] for n, s in outcomes])


def load_kernels(kind, choose, ids):
    """Libraries load what they need when it is first called, which a capture forbids to some."""
    model, optimizer, average = build(kind)
    advance = choose(optimizer, list(model.parameters()), average, 1.0)
    learn(model, ids, 1.0)
    advance()


def replayed(kind, choose):
    """Forward, backward and the update in one graph; ids, scale, rate and the average's share are set before each replay."""
    model, optimizer, average = build(kind)
    advance = choose(optimizer, list(model.parameters()), average, 1.0)
    ids, scale = ids_of(0), torch.ones((), device="cuda")
    load_kernels(kind, choose, ids)
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            learn(model, ids, scale)
            optimizer.zero_grad(set_to_none=True)
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        learn(model, ids, scale)
        outcome = advance()
    outcomes = []
    for step in range(1, STEPS + 1):
        ids.copy_(ids_of(step))
        scale.fill_(float("nan") if step == BAD else 30.0)
        advance.set(step, rate_of(step))
        graph.replay()
        outcomes.append([t.clone() for t in outcome])  # the host runs ahead: nothing is read until all is launched
    return model, optimizer, average, torch.tensor([[n.item(), s.item()] for n, s in outcomes])


def relative(ours, expected):
    return ((ours - expected).norm() / expected.norm().clamp(min=1e-12)).item()


@pytest.mark.parametrize(
    ("kind", "choose"), [("adamw", choose_update), ("adamw", TorchUpdate), ("muon", choose_update)]
)
def test_a_replayed_step_is_the_step(kind, choose):
    model, optimizer, average, outcomes = replayed(kind, choose)
    peer, other, mean, expected = eagerly(kind)
    assert outcomes[:, 1].tolist() == [float(step == BAD) for step in range(1, STEPS + 1)]
    torch.testing.assert_close(outcomes[:, 0], expected[:, 0], rtol=1e-3, atol=0, equal_nan=True)
    tolerance = 1e-2 if kind == "muon" else 1e-3  # products in other orders, and in bfloat16
    for ours, theirs in zip([*model.parameters(), *average.mine], [*peer.parameters(), *mean.mine], strict=True):
        assert relative(ours.detach(), theirs.detach()) < tolerance
    for p, q in zip(model.parameters(), peer.parameters(), strict=True):
        assert optimizer.state[p].keys() == other.state[q].keys()
        if "step" in other.state[q]:
            assert optimizer.state[p]["step"] == other.state[q]["step"] == STEPS - 1


@pytest.mark.parametrize("clip", [1.0, 0.0])
def test_the_fused_update_is_torch_s_given_the_same_gradients(clip):
    """Eagerly, gradient by gradient: what differs is rounding alone."""
    pytest.importorskip("triton")
    (model, optimizer, average), (peer, other, mean) = build("adamw"), build("adamw")
    advance = choose_update(optimizer, list(model.parameters()), average, clip)
    assert type(advance).__name__ == "FusedUpdate"
    for step in range(1, STEPS + 1):
        learn(model, ids_of(step), float("nan") if step == BAD else 30.0)
        for p, q in zip(model.parameters(), peer.parameters(), strict=True):
            q.grad = None if p.grad is None else p.grad.clone()
        advance.set(step, rate_of(step))
        norm, skipped = advance()
        expected, left_out = update(other, list(peer.parameters()), rate_of(step), clip)
        mean.update(step)
        assert skipped == left_out
        torch.testing.assert_close(norm, expected, rtol=1e-6, atol=0, equal_nan=True)
    for ours, theirs in zip([*model.parameters(), *average.mine], [*peer.parameters(), *mean.mine], strict=True):
        assert relative(ours.detach(), theirs.detach()) < 1e-6


def test_a_pinned_batch_is_copied_as_it_is():
    ids = torch.arange(12).view(3, 4)
    batch = PairBatch(ids, ids + 1, ids + 2, 12).pinned()
    assert all(t.is_pinned() for t in batch.tensors())
    there = batch.to(torch.device("cuda"))
    assert there.source.is_cuda
    assert torch.equal(there.labels.cpu(), ids + 2)
