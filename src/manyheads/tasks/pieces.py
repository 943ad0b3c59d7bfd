"""Judging a few tokens at a time, on a CPU.

The intermediate results of a loss are several times as large as the logits: with R-Drop, 8,192 tokens and 8,000 words
they take some gigabytes, written to memory and read again by every operation. Each token is judged independently, so a
few of them are judged to the end, gradient included, while everything is still in the cache. A loss that starts from
the states that logits are computed from never holds all logits either: those of a share of the tokens are computed,
judged, replaced by their gradient, and read by the two products that yield the other gradients. (On a GPU
nn/vocabulary_loss.py does the same.)

N tokens · P passes over them · D width · W words of the target vocabulary
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.nn.add_norm import half_of
from manyheads.nn.linear import linear, weight_gradient
from manyheads.nn.watched import check_first_derivative
from manyheads.tasks.teachers import Cost, Judge

__all__ = ["from_states", "in_pieces"]

PIECE = 1 << 20
"""Logits that are judged at a time: with everything computed from them, as much as a cache holds."""

SHARE = 1 << 23
"""Logits that are held at a time when starting from states: enough for a product to be efficient."""


def in_pieces(
    judge: Judge, logits: Float[Tensor, "passes *rest W"], labels: Int[Tensor, "*target"], cost: Cost
) -> Float[Tensor, ""]:
    """What `judge` returns for all logits: in one call for a small batch, on a GPU, and where code is compiled."""
    if at_once(logits, logits.numel()):
        return judge(logits, labels, cost)
    return JudgePieces.apply(logits, labels.flatten(), judge, cost)  # type: ignore[no-any-return]


def from_states(
    judge: Judge, states: Float[Tensor, "passes *rest D"], table: Float[Tensor, "W D"], bias: Float[Tensor, " W"] | None,
    labels: Int[Tensor, "*target"], cost: Cost,
) -> Float[Tensor, ""]:  # fmt: skip
    """The same for the logits states · tableᵀ + bias, in the precision that autocast wants."""
    if at_once(states, states[..., 0].numel() * len(table)) or not torch.is_grad_enabled():
        return in_pieces(judge, linear(states, table, bias), labels, cost)
    return JudgeShares.apply(states.to(half_of(states)), table, bias, labels.flatten(), judge, cost)  # type: ignore[no-any-return]


def at_once(x: Tensor, logits: int) -> bool:
    return not x.is_cpu or logits <= PIECE or torch.compiler.is_compiling()


class JudgePieces(torch.autograd.Function):
    """Judges logits. The gradient is computed together with the loss, and kept for the backward pass.

    There can be only one, because it scales the gradient in place.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, judge: Judge, cost: Cost) -> Tensor:
        passes = by_pass(logits, labels)
        gradient = torch.empty_like(passes) if logits.requires_grad else None
        loss = judged(passes, labels, judge, cost, gradient)
        ctx.save_for_backward(gradient)
        ctx.shape, ctx.done = logits.shape, False
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        check_once(ctx)
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(gradients[0]).view(ctx.shape), None, None, None


class JudgeShares(torch.autograd.Function):
    """The same, from states: the gradients that are kept are as large as the states and the table."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Tensor | None, labels: Tensor, judge: Judge, cost: Cost
    ) -> Tensor:
        passes, words = by_pass(states, labels), table.to(states.dtype)
        biases = None if bias is None else bias.to(states.dtype)
        learning = (
            one if learns else None for one, learns in zip((table, bias), ctx.needs_input_grad[1:3], strict=True)
        )
        sums, losses = Gradients(passes, *learning), []
        with torch.autocast("cpu", enabled=False):
            for some in slices(labels, SHARE // (len(passes) * len(table))):
                rows = passes[:, some].flatten(0, 1)
                logits = linear(rows, words, biases).unflatten(0, (len(passes), -1))
                losses.append(judged(logits, labels[some], judge, cost.of(some), logits))
                sums.add(some, logits, words, rows)  # gradients have replaced the logits
        ctx.save_for_backward(*sums.all_of_them())
        ctx.shape, ctx.done = states.shape, False
        return sum_of(losses)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        check_once(ctx)
        (factor,), (states, *others) = gradients, ctx.saved_tensors
        weights = (one if one is None else one.mul_(factor) for one in others)
        return states.mul_(factor).view(ctx.shape), *weights, None, None, None


class Gradients:
    """Gradients by the states, and by the table and the bias if they learn; these are summed in their own precision."""

    def __init__(self, passes: Float[Tensor, "P N D"], table: Float[Tensor, "W D"] | None, bias: Tensor | None) -> None:
        self.states = torch.empty_like(passes)
        self.table, self.bias = (None if one is None else torch.zeros_like(one) for one in (table, bias))

    def add(
        self,
        some: slice,
        by_logits: Float[Tensor, "P n W"],
        words: Float[Tensor, "W D"],
        states: Float[Tensor, "P*n D"],
    ) -> None:
        self.states[:, some] = linear(by_logits, words.T)
        by_rows = by_logits.flatten(0, 1)
        if self.table is not None:
            self.table += weight_gradient(by_rows, states)
        if self.bias is not None:
            self.bias += by_rows.sum(0, dtype=self.bias.dtype)

    def all_of_them(self) -> tuple[Tensor | None, ...]:
        return self.states, self.table, self.bias


def judged(
    passes: Float[Tensor, "P N W"], labels: Int[Tensor, " N"], judge: Judge, cost: Cost,
    gradient: Float[Tensor, "P N W"] | None,
) -> Float[Tensor, ""]:  # fmt: skip
    """The loss of all tokens. Its gradient is written to `gradient`, if given, which may be where the logits are."""
    losses = []
    for some in slices(labels, PIECE // (len(passes) * passes.shape[-1])):
        with torch.set_grad_enabled(gradient is not None):
            piece = passes[:, some].flatten(0, 1).detach().requires_grad_(gradient is not None)
            loss = judge(piece, labels[some], cost.of(some))
        if gradient is not None:
            gradient[:, some] = torch.autograd.grad(loss, piece)[0].unflatten(0, (len(passes), -1))
        losses.append(loss.detach())
    return sum_of(losses)


def by_pass(x: Tensor, labels: Tensor) -> Float[Tensor, "P N last"]:
    return x.contiguous().view(-1, labels.numel(), x.shape[-1])


def slices(labels: Int[Tensor, " N"], few: int) -> Iterator[slice]:
    """Slices of `few` tokens, but at least of one."""
    few = max(1, few)
    return (slice(start, start + few) for start in range(0, len(labels), few))


def sum_of(losses: list[Tensor]) -> Float[Tensor, ""]:
    return torch.stack(losses).sum()


def check_once(ctx: Any) -> None:
    """The gradient is scaled in place, so it can be had once; and it cannot be derived."""
    check_first_derivative("a loss computed in pieces")
    if ctx.done:
        raise RuntimeError("a loss computed in pieces can be gone through backwards once")
    ctx.done = True
