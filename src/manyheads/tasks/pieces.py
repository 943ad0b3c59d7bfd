"""Judging a few tokens at a time, on a CPU.

What a loss computes on the way is several times as large as the logits: with R-Drop, 8,192 tokens and 8,000 words some gigabytes, written to memory and
read again by every operation. Tokens are judged each by itself, so a few of them are judged to the end, gradient included, while all of it is still in the
cache. What is left is the gradient of the logits, as large as they are.

N tokens · P passes over them · W words of the target vocabulary
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.tasks.teachers import Cost, Judge

__all__ = ["in_pieces"]

PIECE = 1 << 20
"""Logits that are judged at a time: with what is computed of them, as much as a cache holds."""


def in_pieces(
    judge: Judge, logits: Float[Tensor, "passes *rest W"], labels: Int[Tensor, "*target"], cost: Cost
) -> Float[Tensor, ""]:
    """What `judge` says of all of them; of a small batch, and where all of it is one kernel anyway, at once."""
    if not logits.is_cpu or logits.numel() <= PIECE or torch.compiler.is_compiling():
        return judge(logits, labels, cost)
    return JudgePieces.apply(logits, labels.flatten(), judge, cost)  # type: ignore[no-any-return]


class JudgePieces(torch.autograd.Function):
    """The gradient is computed together with the loss, and kept until it is asked for; once, because it is then scaled where it lies."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, judge: Judge, cost: Cost) -> Tensor:
        passes = by_pass(logits, labels)
        if not logits.requires_grad:
            return sum_of(
                [judge(passes[:, some].flatten(0, 1), labels[some], cost.of(some)) for some in pieces(passes)]
            )
        gradient, losses = torch.empty_like(passes), []
        for some in pieces(passes):
            with torch.enable_grad():
                piece = passes[:, some].flatten(0, 1).detach().requires_grad_()
                loss = judge(piece, labels[some], cost.of(some))
            gradient[:, some] = torch.autograd.grad(loss, piece)[0].unflatten(0, (len(passes), -1))
            losses.append(loss.detach())
        ctx.save_for_backward(gradient)
        ctx.shape = logits.shape
        return sum_of(losses)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph: what follows would be taken for a constant
            raise RuntimeError("a loss that was judged in pieces has no second derivative")
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(gradients[0]).view(ctx.shape), None, None, None


def by_pass(logits: Tensor, labels: Tensor) -> Float[Tensor, "P N W"]:
    return logits.contiguous().view(-1, labels.numel(), logits.shape[-1])


def pieces(passes: Float[Tensor, "P N W"]) -> Iterator[slice]:
    """Of the tokens, so many that all their logits are a piece."""
    tokens = passes.shape[1]
    few = max(1, PIECE // (passes.numel() // tokens))
    return (slice(start, start + few) for start in range(0, tokens, few))


def sum_of(losses: list[Tensor]) -> Float[Tensor, ""]:
    return torch.stack(losses).sum()
