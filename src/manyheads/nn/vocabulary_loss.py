"""The loss of predicting tokens, from a model's last states on: product with the table of words, loss and gradients.

The table of logits is the largest tensor in training. Here it never exists as a whole: for a share of the tokens at a
time, one product writes the logits, a kernel reads them once and replaces them by their gradient
(vocabulary_loss_kernels.py), and two products turn that into the other gradients. As the loss is a sum, its gradient
can be computed along with it: the backward pass only scales it.

    loss = Σ c₁·CE(p) + c₂·CE(q) + k₁·KL(p ‖ q) + k₂·KL(q ‖ p)        over tokens that are not padding

The target of a token is its smoothed label, or in part the mean of teachers' predictions.

N tokens · D width · W words of the target vocabulary
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from manyheads.nn.kernels import HAVE_TRITON, kernels
from manyheads.nn.norms import half_of

__all__ = ["Hints", "Terms", "Voice", "vocabulary_loss", "vocabulary_loss_applies"]

LOGITS = 1 << 29
"""Bytes of logits at a time. More would save little: each share costs one more addition to the table's gradient."""

HELD = 40
"""Logits that a thread holds in registers: with more, too few programs run at a time."""

HINTED = 16
"""Bytes that hints take per logit while they are computed."""

VECTOR = 16
"""The length of a row of logits is a multiple of it: rows are read 16 bytes at a time, products have full tiles."""


@dataclass(frozen=True)
class Terms:
    """The weights of the terms of the loss: p is a first, q a second prediction of the same token."""

    p: float = 1.0
    q: float = 0.0
    pq: float = 0.0
    qp: float = 0.0


@dataclass(frozen=True, eq=False)
class Voice:
    """One teacher's predictions of the tokens: the states, and the table (and bias) that turn them into logits."""

    states: Float[Tensor, "*target E"]
    weight: Float[Tensor, "W E"]
    bias: Float[Tensor, " W"] | None = None


@dataclass(frozen=True, eq=False)
class Hints:
    """The teachers' predictions, and their share of the target. The rest is the label's."""

    share: float
    voices: Sequence[Voice]


def vocabulary_loss_applies(x: Tensor) -> bool:
    return x.is_cuda and HAVE_TRITON and x.dtype != torch.float64


def vocabulary_loss(
    x: Float[Tensor, "*predictions D"],
    weight: Float[Tensor, "W D"],
    labels: Int[Tensor, "*target"],
    smoothing: float = 0.0,
    terms: Terms = Terms(),  # noqa: B008
    padding: int = 0,
    bias: Float[Tensor, " W"] | None = None,
    hints: Hints | None = None,
) -> Float[Tensor, ""]:
    """The sum of the losses of all tokens.

    x         the states that predict the labels; for two predictions, the states of the first, then of the second
    padding   the label that costs nothing
    bias      one per word, or None
    hints     from teachers, or None

    Logits are x · weightᵀ + bias in the precision of autocast; everything made of them is computed in float32.
    """
    x = x.to(half_of(x)).reshape(-1, labels.numel(), x.shape[-1])
    return VocabularyLoss.apply(x, weight, bias, labels.flatten(), smoothing, terms, padding, hints)


class VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Float[Tensor, "times N D"], weight: Float[Tensor, "W D"], bias: Float[Tensor, " W"] | None,
        labels: Int[Tensor, " N"], smoothing: float, terms: Terms, padding: int, hints: Hints | None,
    ) -> Float[Tensor, ""]:  # fmt: skip
        with torch.autocast(x.device.type, enabled=False):
            loss, *gradients = judge(x, weight, bias, labels, smoothing, terms, padding, hints)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        dx, dw, db = ctx.saved_tensors
        return dx * gradient, dw * gradient, None if db is None else db * gradient, None, None, None, None, None


def judge(
    x: Float[Tensor, "times N D"], weight: Float[Tensor, "W D"], bias: Float[Tensor, " W"] | None,
    labels: Int[Tensor, " N"], smoothing: float, terms: Terms, padding: int, hints: Hints | None,
) -> tuple[Float[Tensor, ""], Float[Tensor, "times N D"], Float[Tensor, "W D"], Float[Tensor, " W"] | None]:  # fmt: skip
    """(the loss, its gradients with respect to x, the weight and, if there is one, the bias)"""
    times, tokens, _ = x.shape
    table = ready(weight, x.dtype)
    biases = None if bias is None else ready(bias, x.dtype)
    share = tokens_at_once(tokens, len(table) * (times * x.element_size() + (HINTED if hints else 0)))
    told = Told(hints, len(weight), x.dtype) if hints else None
    room = x.new_empty(times, share, len(table))
    losses = x.new_empty(tokens, dtype=torch.float32)
    dx, dw, db = torch.empty_like(x), None, None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
    for start in range(0, tokens, share):
        some = slice(start, start + share)
        parts = list(zip(x[:, some], room[:, : tokens - start], dx[:, some], strict=True))
        for states, logits, _ in parts:
            product(states, table, biases, logits)
        judge_logits(
            room, labels[some], losses[some], len(weight), smoothing, terms, padding, told(some) if told else None
        )
        for states, gradient, change in parts:
            torch.mm(gradient, table, out=change)
            more = wide_product(gradient.T, states)
            dw = more if dw is None else dw.add_(more)
            if db is not None:
                db += gradient[:, : len(db)].sum(0, dtype=torch.float32)
    assert dw is not None  # there are tokens
    return losses.sum(), dx, dw[: len(weight)].to(weight.dtype), None if db is None else db.to(weight.dtype)


def product(
    states: Float[Tensor, "N D"], table: Float[Tensor, "room D"], bias: Float[Tensor, " room"] | None, out: Tensor
) -> None:
    """Write the logits to `out`, in one pass even with a bias."""
    if bias is None:
        torch.mm(states, table.T, out=out)
    else:
        torch.addmm(bias, states, table.T, out=out)


def judge_logits(
    logits: Float[Tensor, "times N_ room"], labels: Int[Tensor, " N"], losses: Float[Tensor, " N"],
    words: int, smoothing: float, terms: Terms, padding: int, told: tuple[float, Float[Tensor, "N W"]] | None,
) -> None:  # fmt: skip
    """Write the loss of every token to `losses`, and replace the logits by their gradients."""
    times, twin, room = logits.shape
    share, hints = told or (0.0, losses)  # a placeholder: without hints it is not read
    kernels("vocabulary_loss").judge_rows[(len(labels),)](
        logits, labels, hints, losses, twin, smoothing, share, terms.p, terms.q, terms.pq, terms.qp,
        W=words, ROOM=room, PADDING=padding, TWICE=times == 2, TAUGHT=told is not None, **tiles(words, times),
    )  # fmt: skip


class Told:
    """The teachers. Called with a slice of the tokens: their share of the target, and the mean of their predictions."""

    def __init__(self, hints: Hints, words: int, dtype: torch.dtype) -> None:
        self.share, self.words = hints.share, words
        self.voices = [
            (
                voice.states.detach().flatten(0, -2).to(dtype),
                ready(voice.weight.detach(), dtype),
                None if voice.bias is None else ready(voice.bias.detach(), dtype),
            )
            for voice in hints.voices
        ]

    def __call__(self, some: slice) -> tuple[float, Float[Tensor, "N W"]]:
        first, *others = self.voices
        mean = self.predicted(first, some)
        for other in others:
            mean += self.predicted(other, some)
        return self.share, mean.div_(len(self.voices))

    def predicted(self, voice: tuple[Tensor, Tensor, Tensor | None], some: slice) -> Float[Tensor, "N W"]:
        states, table, bias = voice
        return F.linear(states[some], table, bias)[:, : self.words].softmax(-1, dtype=torch.float32)


def tiles(words: int, times: int) -> dict[str, int]:
    """How a program walks over its rows.

    A single row that fits into the registers is held there; two rows would leave room for too few programs.
    """
    warps = 8 if times == 2 else next((n for n in (4, 8) if words <= n * 32 * HELD), 16)
    block = warps * 32 * (8 // times)
    count = -(-words // block)
    held = times == 1 and words <= warps * 32 * HELD
    return {"BLOCK": block, "UNROLL": count if held else 1, "num_warps": warps}


def tokens_at_once(tokens: int, size: int) -> int:
    """The tokens of a share, if a token takes `size` bytes: equal shares of at most `LOGITS` bytes each."""
    shares = max(1, -(-tokens * size // LOGITS))
    return max(1, -(-tokens // shares))


def ready(weight: Float[Tensor, "W *D"], dtype: torch.dtype) -> Float[Tensor, "room *D"]:
    """`weight` in the precision of the product, with rows of zeros up to a multiple of `VECTOR`."""
    words, *width = weight.shape
    if weight.dtype == dtype and words % VECTOR == 0:
        return weight
    table = weight.new_empty(-(-words // VECTOR) * VECTOR, *width, dtype=dtype)
    table[:words] = weight
    table[words:] = 0
    return table


def wide_product(a: Float[Tensor, "N K"], b: Float[Tensor, "K M"]) -> Float[Tensor, "N M"]:
    """a @ b in float32, from any precision. Only GPUs can multiply halves without rounding the product to halves."""
    if a.is_cuda and a.dtype != torch.float32:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()
