"""Sums and bests over paths, against all paths written out."""

from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manyheads.nn.paths import best_path, best_ways, into, log_likelihood, trace_back


def graph(vertices: int, words: int, seed: int, longest: int) -> tuple[Tensor, Tensor]:
    """Random words and links of one sentence, in a table of `longest` vertices; links go forward and add up to 1."""
    draw = torch.Generator().manual_seed(seed)
    said = torch.randn(words, longest, generator=draw, dtype=torch.double).log_softmax(0)
    scores = torch.randn(longest, longest, generator=draw, dtype=torch.double)
    place = torch.arange(longest)
    scores[(place[None] <= place[:, None]) | (place[None] >= vertices)] = -torch.inf
    return said, scores.log_softmax(-1).nan_to_num(nan=-torch.inf, neginf=-torch.inf)


def every_path(said: Tensor, links: Tensor, vertices: int) -> dict[tuple[int, ...], Tensor]:
    words, found = said.shape[0], {}
    for path in combinations(range(1, vertices - 1), words):
        whole = (0, *path, vertices - 1)
        steps = sum(links[a, b] for a, b in pairwise(whole))
        found[path] = steps + sum(said[t, vertex] for t, vertex in enumerate(path))
    return found


sizes = st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 10_000))


def batch(cases: list[tuple[int, int, int]]) -> tuple[list[tuple[Tensor, Tensor, int]], tuple[Tensor, ...]]:
    """Each sentence alone, and all of them in one padded batch."""
    most, longest = max(n for n, _, _ in cases), max(n + more + 2 for n, more, _ in cases)
    alone, words, links = [], [], []
    for n, more, seed in cases:
        said, link = graph(n + more + 2, n, seed, longest)
        alone.append((said, link, n + more + 2))
        words.append(torch.cat([said, torch.full((most - n, longest), -3.0, dtype=torch.double)]))
        links.append(link)
    lengths = torch.tensor([n for n, _, _ in cases])
    last = torch.tensor([n + more + 1 for n, more, _ in cases])
    return alone, (torch.stack(words), torch.stack(links), lengths, last)


@settings(deadline=None, max_examples=40)
@given(st.lists(sizes, min_size=1, max_size=3))
def test_the_sum_is_that_over_all_paths(cases: list[tuple[int, int, int]]) -> None:
    alone, given = batch(cases)
    expected = [torch.stack(list(every_path(*one).values())).logsumexp(0) for one in alone]
    torch.testing.assert_close(log_likelihood(*given), torch.stack(expected), atol=1e-10, rtol=0)


@settings(deadline=None, max_examples=20)
@given(st.lists(sizes, min_size=1, max_size=3))
def test_its_gradient_is_that_of_the_sum(cases: list[tuple[int, int, int]]) -> None:
    alone, (words, links, lengths, last) = batch(cases)
    words.requires_grad_(), links.requires_grad_()
    weights = torch.linspace(0.5, 2, len(cases), dtype=torch.double)
    (log_likelihood(words, links, lengths, last) * weights).sum().backward()
    for row, (said, link, vertices) in enumerate(alone):
        said.requires_grad_(), link.requires_grad_()
        (torch.stack(list(every_path(said, link, vertices).values())).logsumexp(0) * weights[row]).backward()
        torch.testing.assert_close(words.grad[row, : len(said)], said.grad, atol=1e-10, rtol=0)
        torch.testing.assert_close(links.grad[row], link.grad, atol=1e-10, rtol=0)
        assert not words.grad[row, len(said) :].any(), "padding learns nothing"


@settings(deadline=None, max_examples=40)
@given(st.lists(sizes, min_size=1, max_size=3))
def test_the_best_path_is_the_best_of_all(cases: list[tuple[int, int, int]]) -> None:
    alone, given = batch(cases)
    found = best_path(*given)
    for row, one in enumerate(alone):
        paths = every_path(*one)
        assert tuple(found[row, : len(one[0])].tolist()) == max(paths, key=lambda path: paths[path])


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 5), st.integers(0, 10_000))
def test_the_likeliest_path_of_every_length(vertices: int, seed: int) -> None:
    vertices += 2
    said, links = graph(vertices, 1, seed, vertices)
    last, most = torch.tensor([vertices - 1]), vertices - 2
    scores = best_ways(said.expand(most, -1)[None], links[None], last)
    for words in range(1, most + 1):
        paths = every_path(said.expand(words, -1), links, vertices)
        likeliest = max(paths, key=lambda path: paths[path])
        best = (scores + into(links[None], last)[:, None]).amax(-1)[0, words - 1].item()
        assert best == pytest.approx(paths[likeliest].item(), abs=1e-10)
        path = trace_back(scores, links[None], torch.tensor([words]), last)
        assert tuple(path[0, :words].tolist()) == likeliest


def test_words_that_do_not_fit_have_no_probability() -> None:
    said, links = graph(4, 3, 0, 4)
    assert log_likelihood(said[None], links[None], torch.tensor([3]), torch.tensor([3])).item() == -torch.inf


def test_where_there_is_no_path_nothing_is_learnt() -> None:
    words, links = torch.zeros(2, 1, 4), torch.zeros(2, 4, 4)
    words[0], links = -torch.inf, links.log_softmax(-1)
    words, links = words.requires_grad_(), links.requires_grad_()
    found = log_likelihood(words, links, torch.tensor([1, 1]), torch.tensor([3, 3]))
    assert found[0] == -torch.inf
    assert found[1].isfinite()
    found.sum().backward()
    assert words.grad is not None
    assert links.grad is not None
    assert not words.grad[0].any()
    assert not links.grad[0].any()
    assert words.grad[1].any()
    assert links.grad.isfinite().all()
