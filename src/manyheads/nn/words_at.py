"""The probability of every word of a target sentence at every vertex of its graph.

These are a few dozen of the thousands of words that each vertex has a logit for; of the others only the sum is needed.
So logits are computed for a share of the vertices at a time, summed and discarded; the backward pass computes them
again. Nothing of the size vertices × vocabulary is ever held.

    words[t, v] = states[v] · table[label t] − log Σ exp(states[v] · table)

B sentences · T words · L vertices · N vertices of all sentences · D width · W words of the vocabulary
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.nn.linear import linear, weight_gradient
from manyheads.nn.norms import half_of
from manyheads.nn.watched import check_first_derivative

__all__ = ["are_best", "words_at"]

LOGITS = {"cpu": 1 << 21, "cuda": 1 << 28}
"""Logits of a share: on a CPU, as many as a cache holds along with their results; elsewhere, enough to stay busy."""


def words_at(
    states: Float[Tensor, "B L D"], table: Float[Tensor, "W D"], labels: Int[Tensor, "B T"]
) -> Float[Tensor, "B T L"]:
    """log P of the words, in at least float32; logits are rounded to the precision of autocast."""
    scores = wide(F.embedding(labels, table) @ states.mT)
    rows = states.to(half_of(states)).flatten(0, 1)
    return scores - LogTotal.apply(rows, table).view(states.shape[:2])[:, None]


@torch.no_grad()
def are_best(
    states: Float[Tensor, "*places D"], table: Float[Tensor, "W D"], labels: Int[Tensor, "*places"]
) -> Bool[Tensor, "*places"]:
    """True where no other word is likelier. (A tie, after rounding, counts as true.)"""
    rows, asked = states.to(half_of(states)).flatten(0, -2), labels.flatten()
    found = torch.empty_like(asked, dtype=torch.bool)
    for some, logits in in_shares(rows, table.to(rows.dtype)):
        found[some] = logits.gather(1, asked[some, None])[:, 0] >= logits.amax(-1)
    return found.view(labels.shape)


class LogTotal(torch.autograd.Function):
    """log Σ exp of the logits of all words."""

    @staticmethod
    def forward(ctx: Any, rows: Float[Tensor, "N D"], table: Float[Tensor, "W D"]) -> Float[Tensor, " N"]:
        words = table.to(rows.dtype)
        totals = torch.empty(len(rows), dtype=wide(rows[:0]).dtype, device=rows.device)
        for some, logits in in_shares(rows, words):
            totals[some] = wide(logits).logsumexp(-1)
        ctx.save_for_backward(rows, words, totals)
        ctx.kind = table.dtype
        return totals

    @staticmethod
    def backward(ctx: Any, gradient: Float[Tensor, " N"]) -> tuple[Tensor, Tensor | None]:  # type: ignore[override]
        check_first_derivative("a sum over all words of a vocabulary")
        rows, words, totals = ctx.saved_tensors
        of_rows, of_words = torch.empty_like(rows), torch.zeros_like(words, dtype=ctx.kind)
        for some, logits in in_shares(rows, words):
            p = wide(logits).sub_(totals[some, None]).exp_().mul_(gradient[some, None]).to(rows.dtype)
            of_rows[some] = linear(p, words.T)
            if ctx.needs_input_grad[1]:  # not if the table is frozen
                of_words += weight_gradient(p, rows[some])
        return of_rows, of_words if ctx.needs_input_grad[1] else None


def in_shares(
    rows: Float[Tensor, "N D"], words: Float[Tensor, "W D"]
) -> Iterator[tuple[slice, Float[Tensor, "share W"]]]:
    """Yields a slice of the vertices and all their logits, share by share."""
    share = max(1, LOGITS.get(rows.device.type, LOGITS["cuda"]) // len(words))
    with torch.autocast(rows.device.type, enabled=False):
        for start in range(0, len(rows), share):
            some = slice(start, start + share)
            yield some, linear(rows[some], words)


def wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
