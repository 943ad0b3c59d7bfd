"""Sums and bests over paths in kernels, against those word by word. Without a GPU kernels are interpreted (conftest.py)."""

import pytest
import torch

pytest.importorskip("triton")

from manyheads.nn import paths
from manyheads.nn.paths import best_path, best_ways, log_likelihood, trace_back

pytestmark = pytest.mark.plain

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def graphs(sizes, seed=0):
    """Sentences of (words, vertices) in one padded batch; what stands beyond their last vertex, or behind their words, is noise."""
    draw = torch.Generator().manual_seed(seed)
    steps, most = max(n for n, _ in sizes), max(v for _, v in sizes)
    words = 3 * torch.randn(len(sizes), steps, most, generator=draw, dtype=torch.double) - 4
    last = torch.tensor([v - 1 for _, v in sizes])
    place = torch.arange(most)
    ahead = (place[None] > place[:, None]) & (place[None] <= last[:, None, None])
    scores = (4 * torch.randn(len(sizes), most, most, generator=draw, dtype=torch.double)).masked_fill(
        ~ahead, -torch.inf
    )
    links = scores.log_softmax(-1).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
    return words, links, torch.tensor([n for n, _ in sizes]), last


SIZES = [
    [(1, 3)],
    [(4, 9), (1, 9), (7, 9)],  # the last of them has one path
    [(5, 31), (12, 70), (30, 32), (3, 65), (6, 33)],
]


@pytest.fixture
def kernels(monkeypatch):
    def use(yes):
        monkeypatch.setattr(paths, "in_kernels", lambda _: yes)

    return use


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_sum_and_its_gradient(kernels, sizes):
    words, links, lengths, last = graphs(sizes)
    weights = torch.linspace(0.5, 2, len(sizes), dtype=torch.double)
    found = []
    for fast in (False, True):
        kernels(fast)
        device, kind = (DEVICE, torch.float) if fast else (torch.device("cpu"), torch.double)
        given = [x.detach().to(device, kind, copy=True).requires_grad_() for x in (words, links)]
        total = log_likelihood(*given, lengths.to(device), last.to(device))
        (total * weights.to(total)).sum().backward()
        found.append([total.detach().cpu().double(), *(x.grad.cpu().double() for x in given)])
    for exact, ours in zip(*found, strict=True):
        assert exact.abs().sum() > 0.4
        torch.testing.assert_close(ours, exact, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_best_path_and_the_best_of_every_length(kernels, sizes):
    words, links, lengths, last = (x.to(DEVICE) for x in graphs(sizes))
    kernels(False)
    path, scores = best_path(words, links, lengths, last), best_ways(words, links, last)
    kernels(True)
    ours, mine = best_path(words, links, lengths, last), best_ways(words, links, last)
    assert torch.equal(ours, path)
    for row, (steps, vertices) in enumerate(sizes):
        torch.testing.assert_close(mine[row, :, :vertices].double(), scores[row, :, :vertices], atol=2e-5, rtol=2e-5)
        for n in range(1, steps + 1):
            some = torch.tensor([n], device=DEVICE)
            one = slice(row, row + 1)
            kernels(False)
            wanted = best_path(words[one, :steps], links[one], some, last[one])
            kernels(True)
            found = trace_back(mine[one, :steps], links[one], some, last[one])
            assert torch.equal(found, wanted)


def test_what_cannot_be_said_has_no_probability(kernels):
    words, links, lengths, last = (x.to(DEVICE) for x in graphs([(3, 4)]))
    kernels(True)
    assert log_likelihood(words, links, lengths, last).item() == -torch.inf
