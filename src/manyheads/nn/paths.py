"""Paths through a directed acyclic graph whose vertices say words: what a graph says of a sentence is a sum over all paths that spell it.

A path begins in the first vertex and ends in the last one, which say nothing; between them it goes through as many vertices as the sentence
has words, always forward:

    P(words) = Σ over paths  links[0, a₁] · words[1, a₁] · links[a₁, a₂] · words[2, a₂] · … · links[aₙ, last]

All of it in logarithms. (Huang et al. 2022, "Directed Acyclic Transformer for Non-Autoregressive Machine Translation".)

B sentences · T words · L vertices
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["best_path", "best_ways", "into", "log_likelihood", "trace_back"]

NEVER = -torch.inf


def log_likelihood(
    words: Float[Tensor, "B T L"],
    links: Float[Tensor, "B L L"],
    lengths: Int[Tensor, " B"],
    last: Int[Tensor, " B"],
) -> Float[Tensor, " B"]:
    """log P of each sentence.

    words     log-probability that a vertex says the t-th word
    links     log-probability that a path goes from a vertex (a row) to another
    lengths   words of each sentence, at least 1
    last      its last vertex: there must be at least `lengths` others between the first and the last
    """
    return SumOverPaths.apply(words, links, lengths, last)  # type: ignore[no-any-return]


class SumOverPaths(torch.autograd.Function):
    """The gradient is how often each vertex and each link is used, which one more pass, backward, counts. Nothing of the size of
    all words × all links is ever held."""

    @staticmethod
    def forward(ctx: Any, words: Tensor, links: Tensor, lengths: Tensor, last: Tensor) -> Tensor:
        to_last = into(links, last)
        ahead = [links[:, 0] + words[:, 0]]
        for t in range(1, words.shape[1]):
            ahead.append((ahead[-1][:, :, None] + links).logsumexp(1) + words[:, t])
        alpha = torch.stack(ahead, 1)  # B T L: all ways to be in a vertex after t words
        ends = alpha.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, alpha.shape[2]))[:, 0]
        total = (ends + to_last).logsumexp(-1)
        ctx.save_for_backward(words, links, lengths, last, alpha, total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        words, links, lengths, last, alpha, total = ctx.saved_tensors
        to_last = into(links, last)
        of_words, of_links = torch.zeros_like(words), torch.zeros_like(links)
        beta = torch.full_like(to_last, NEVER)  # all ways from a vertex to the end
        for t in reversed(range(words.shape[1])):
            final = (lengths == t + 1)[:, None]
            beta = torch.where(final, to_last, beta)
            of_words[:, t] = (alpha[:, t] + beta - total[:, None]).exp()
            if t:
                onward = words[:, t] + beta
                of_links += (alpha[:, t - 1, :, None] + links + (onward - total[:, None])[:, None]).exp()
                beta = (links + onward[:, None]).logsumexp(-1)
        of_links[:, 0] += of_words[:, 0]
        ending = of_words.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, words.shape[2]))[:, 0]
        of_links.scatter_add_(2, column(last, links), ending[:, :, None])
        return of_words * gradients[0][:, None, None], of_links * gradients[0][:, None, None], None, None


@torch.no_grad()
def best_path(
    words: Float[Tensor, "B T L"],
    links: Float[Tensor, "B L L"],
    lengths: Int[Tensor, " B"],
    last: Int[Tensor, " B"],
) -> Int[Tensor, "B T"]:
    """The vertices of the single likeliest path that spells each sentence; behind its end, the last vertex."""
    return trace_back(*best_ways(words, links), into(links, last), lengths, last)


Ways = tuple[Float[Tensor, "B T L"], list[Int[Tensor, "B L"]]]
"""How likely the best way is to every vertex after t words, and, but for the first word, the vertex before it on that way."""


@torch.no_grad()
def best_ways(words: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"]) -> Ways:
    score, came_from = links[:, 0] + words[:, 0], []
    scores = [score]
    for t in range(1, words.shape[1]):
        score, where = (score[:, :, None] + links).max(1)
        score = score + words[:, t]
        scores.append(score)
        came_from.append(where)
    return torch.stack(scores, 1), came_from


def trace_back(
    scores: Float[Tensor, "B T L"],
    came_from: list[Int[Tensor, "B L"]],
    to_last: Float[Tensor, "B L"],
    lengths: Int[Tensor, " B"],
    last: Int[Tensor, " B"],
) -> Int[Tensor, "B T"]:
    """The vertices of the best path of the given number of words."""
    steps = scores.shape[1]
    path = last[:, None].repeat(1, steps)
    here = last
    for t in reversed(range(steps)):
        ends_here = (scores[:, t] + to_last).argmax(-1)
        before = came_from[t].gather(1, here[:, None])[:, 0] if t + 1 < steps else ends_here
        here = torch.where(lengths == t + 1, ends_here, torch.where(lengths > t + 1, before, here))
        path[:, t] = here
    return path


def into(links: Float[Tensor, "B L L"], vertex: Int[Tensor, " B"]) -> Float[Tensor, "B L"]:
    """Links from every vertex to one."""
    return links.gather(2, column(vertex, links))[:, :, 0]


def column(vertex: Int[Tensor, " B"], links: Float[Tensor, "B L L"]) -> Int[Tensor, "B L 1"]:
    return vertex[:, None, None].expand(-1, links.shape[1], 1)
