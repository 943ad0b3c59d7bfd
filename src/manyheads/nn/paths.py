"""Paths through a directed acyclic graph whose vertices predict words.

The probability of a sentence is a sum over all paths that spell it. A path starts in the first vertex and ends in the
last one, which predict no word; between them it visits one vertex per word of the sentence, always going forward:

    P(words) = Σ over paths  links[0, a₁] · words[1, a₁] · links[a₁, a₂] · words[2, a₂] · … · links[aₙ, last]

Everything is computed in logarithms. (Huang et al. 2022, "Directed Acyclic Transformer for Non-Autoregressive Machine
Translation".)

B sentences · T words · L vertices
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.nn import path_launches as launch
from manyheads.nn.kernels import HAVE_TRITON

__all__ = ["best_path", "best_ways", "into", "log_likelihood", "trace_back"]

NEVER = -torch.inf


def in_kernels(x: Tensor) -> bool:
    """True on a GPU with Triton: a few kernel launches replace several for each word."""
    return HAVE_TRITON and x.is_cuda


def log_likelihood(
    words: Float[Tensor, "B T L"],
    links: Float[Tensor, "B L L"],
    lengths: Int[Tensor, " B"],
    last: Int[Tensor, " B"],
) -> Float[Tensor, " B"]:
    """log P of each sentence.

    words     log-probability that a vertex predicts the t-th word
    links     log-probability that a path goes from one vertex (a row) to another
    lengths   number of words of each sentence, at least 1
    last      index of its last vertex: there must be at least `lengths` vertices between the first and the last
    """
    return SumOverPaths.apply(words, links, lengths, last)  # type: ignore[no-any-return]


class SumOverPaths(torch.autograd.Function):
    """`log_likelihood` with its gradient: how often each vertex and each link is used, counted in one backward pass.

    Nothing of the size words × links is ever held.
    """

    @staticmethod
    def forward(ctx: Any, words: Tensor, links: Tensor, lengths: Tensor, last: Tensor) -> Tensor:
        ahead = (launch.sum_ahead if in_kernels(words) else sum_ahead)(words, links, lengths, last)
        ends = of_word(ahead, lengths - 1)
        total = (ends + into(links, last)).logsumexp(-1)
        ctx.save_for_backward(words, links, lengths, last, ahead, total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        words, links, lengths, last, ahead, total = ctx.saved_tensors
        count = launch.count_uses if in_kernels(words) else count_uses
        total = total.masked_fill(total == NEVER, 0)  # without a path every use counts 0, and not NaN
        of_words, of_links = count(words, links, lengths, last, ahead, total, gradients[0])
        of_links[:, 0] += of_words[:, 0]
        of_links.scatter_add_(2, column(last, links), of_word(of_words, lengths - 1)[:, :, None])
        return of_words, of_links, None, None


def sum_ahead(
    words: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], lengths: Int[Tensor, " B"], last: Int[Tensor, " B"]
) -> Float[Tensor, "B T L"]:
    """log P of reaching each vertex with each word: the sum over all paths up to there, that word included."""
    ahead = [links[:, 0] + words[:, 0]]
    for t in range(1, words.shape[1]):
        ahead.append((ahead[-1][:, :, None] + links).logsumexp(1) + words[:, t])
    return torch.stack(ahead, 1)


def count_uses(
    words: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], lengths: Int[Tensor, " B"], last: Int[Tensor, " B"],
    ahead: Float[Tensor, "B T L"], total: Float[Tensor, " B"], gradient: Float[Tensor, " B"],
) -> tuple[Float[Tensor, "B T L"], Float[Tensor, "B L L"]]:  # fmt: skip
    """How often each vertex is used for each word, and each link between two words, times the gradient."""
    to_last = into(links, last)
    of_words, of_links = torch.zeros_like(words), torch.zeros_like(links)
    back = torch.full_like(to_last, NEVER)  # log P of all ways from a vertex to the end
    for t in reversed(range(words.shape[1])):
        back = torch.where((lengths == t + 1)[:, None], to_last, back)
        of_words[:, t] = (ahead[:, t] + back - total[:, None]).exp()
        if t:
            onward = words[:, t] + back
            of_links += (ahead[:, t - 1, :, None] + links + (onward - total[:, None])[:, None]).exp()
            back = (links + onward[:, None]).logsumexp(-1)
    return of_words * gradient[:, None, None], of_links * gradient[:, None, None]


@torch.no_grad()
def best_path(
    words: Float[Tensor, "B T L"],
    links: Float[Tensor, "B L L"],
    lengths: Int[Tensor, " B"],
    last: Int[Tensor, " B"],
) -> Int[Tensor, "B T"]:
    """The vertices of the single likeliest path that spells each sentence; past its end, the last vertex."""
    return trace_back(best_ways(words, links, last), links, lengths, last)


@torch.no_grad()
def best_ways(
    words: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], last: Int[Tensor, " B"]
) -> Float[Tensor, "B T L"]:
    """log P of reaching each vertex with each word by the best path."""
    if in_kernels(words):
        return launch.best_ways(words, links, last)
    scores = torch.full(words.shape, NEVER, dtype=words.dtype, device=words.device)
    scores[:, 0] = links[:, 0] + words[:, 0]
    for t in range(1, words.shape[1]):  # after t words a path is in vertex t or beyond
        best = (scores[:, t - 1, t:, None] + links[:, t:, t + 1 :]).amax(1)
        scores[:, t, t + 1 :] = best + words[:, t, t + 1 :]
    return scores


@torch.no_grad()
def trace_back(
    scores: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], lengths: Int[Tensor, " B"], last: Int[Tensor, " B"]
) -> Int[Tensor, "B T"]:
    """The vertices of the best path with the given number of words; past its end, the last vertex.

    Predecessors are not stored but searched for again, for the vertices of the path only.
    """
    path = last[:, None].repeat(1, scores.shape[1])
    if in_kernels(scores):
        return launch.trace_back(scores, links, lengths, last, path)
    here = last
    for t in reversed(range(int(lengths.max()))):
        before = (scores[:, t] + into(links, here)).argmax(-1)
        here = path[:, t] = torch.where(lengths > t, before, last)
    return path


def of_word(x: Float[Tensor, "B T L"], word: Int[Tensor, " B"]) -> Float[Tensor, "B L"]:
    """The values for one word of each sentence."""
    return x.gather(1, word[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]


def into(links: Float[Tensor, "B L L"], vertex: Int[Tensor, " B"]) -> Float[Tensor, "B L"]:
    """The links from every vertex to one vertex of each sentence."""
    return links.gather(2, column(vertex, links))[:, :, 0]


def column(vertex: Int[Tensor, " B"], links: Float[Tensor, "B L L"]) -> Int[Tensor, "B L 1"]:
    return vertex[:, None, None].expand(-1, links.shape[1], 1)
