"""What it costs a model to predict tokens, from its last states on: the product with the table of words, the loss, and all gradients.

The table of logits is the largest thing in training. Here it is never whole: for a share of the tokens at a time, logits are written by one
product, read once and replaced by their gradient (vocabulary_loss_kernels.py), and read by the two products that gradients
are made of. As the loss is a sum, its gradient may be had before anyone asks: the backward pass scales what is there.

    loss = Σ c₁·CE(p) + c₂·CE(q) + k₁·KL(p ‖ q) + k₂·KL(q ‖ p)        over tokens that are no padding

What a token should be is its label, smoothed, or in part what teachers say that it may be: the mean of their predictions.

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
"""Bytes of logits at a time. More of them would save little: each share costs one more sum over the gradient of the table."""

HELD = 40
"""Logits that a thread holds in registers: with more, too few programs run at a time."""

HINTED = 16
"""Bytes that hints take for each logit, while they are made."""

VECTOR = 16
"""Rows of logits are a multiple of it: they are read 16 bytes at a time, and products have whole tiles."""


@dataclass(frozen=True)
class Terms:
    """What the loss is the sum of: p is a first, q a second prediction of the same token."""

    p: float = 1.0
    q: float = 0.0
    pq: float = 0.0
    qp: float = 0.0


@dataclass(frozen=True, eq=False)
class Voice:
    """What one teacher says of the tokens: as here, the states that predict them, and the table that makes logits of these."""

    states: Float[Tensor, "*target E"]
    weight: Float[Tensor, "W E"]
    bias: Float[Tensor, " W"] | None = None


@dataclass(frozen=True, eq=False)
class Hints:
    """What teachers say, and the share of what is learnt that comes from them. The rest is the label's."""

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
    """
    x         the states that predict the labels; or those of two predictions, one behind the other
    padding   a label that costs nothing
    bias      of every word, if there are any
    hints     of teachers, if there are any

    Logits are x · weightᵀ + bias in the precision that autocast wants; all that is made of them is computed in float32.
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
    """(the loss, its gradients by x, by the weight and, if there is one, by the bias)"""
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
    """Logits, in one pass over them also if there is a bias."""
    if bias is None:
        torch.mm(states, table.T, out=out)
    else:
        torch.addmm(bias, states, table.T, out=out)


def judge_logits(
    logits: Float[Tensor, "times N_ room"], labels: Int[Tensor, " N"], losses: Float[Tensor, " N"],
    words: int, smoothing: float, terms: Terms, padding: int, told: tuple[float, Float[Tensor, "N W"]] | None,
) -> None:  # fmt: skip
    """The loss of every token; the gradients of the logits take their place."""
    times, twin, room = logits.shape
    share, hints = told or (0.0, losses)  # without any, nothing is read there
    kernels("vocabulary_loss").judge_rows[(len(labels),)](
        logits, labels, hints, losses, twin, smoothing, share, terms.p, terms.q, terms.pq, terms.qp,
        W=words, ROOM=room, PADDING=padding, TWICE=times == 2, TAUGHT=told is not None, **tiles(words, times),
    )  # fmt: skip


class Told:
    """What teachers say of some of the tokens: their share in what is learnt, and the mean of their predictions."""

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
    """How a program walks over its rows. One that fits into the registers is held there; two leave room for too few programs."""
    warps = 8 if times == 2 else next((n for n in (4, 8) if words <= n * 32 * HELD), 16)
    block = warps * 32 * (8 // times)
    count = -(-words // block)
    held = times == 1 and words <= warps * 32 * HELD
    return {"BLOCK": block, "UNROLL": count if held else 1, "num_warps": warps}


def tokens_at_once(tokens: int, size: int) -> int:
    """In equal shares, each of `LOGITS` bytes or less, if a token takes `size`."""
    shares = max(1, -(-tokens * size // LOGITS))
    return max(1, -(-tokens // shares))


def ready(weight: Float[Tensor, "W *D"], dtype: torch.dtype) -> Float[Tensor, "room *D"]:
    """In the precision of the product, with zeros behind."""
    words, *width = weight.shape
    if weight.dtype == dtype and words % VECTOR == 0:
        return weight
    table = weight.new_empty(-(-words // VECTOR) * VECTOR, *width, dtype=dtype)
    table[:words] = weight
    table[words:] = 0
    return table


def wide_product(a: Float[Tensor, "N K"], b: Float[Tensor, "K M"]) -> Float[Tensor, "N M"]:
    """In float32, of any precision. Only GPUs have products of halves that are not rounded to halves."""
    if a.is_cuda and a.dtype != torch.float32:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()
