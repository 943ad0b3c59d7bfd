"""Losses of predicted tokens, summed over the tokens that are not padding: the loop divides by their count.

W words of the target vocabulary
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.text.tokenizer import PADDING

__all__ = ["divergence", "divergence_both_ways", "log_probabilities", "smoothed_loss", "wide"]


def smoothed_loss(
    log_p: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"], smoothing: float
) -> Float[Tensor, ""]:
    """Cross-entropy, with `smoothing` of the probability spread over the vocabulary."""
    rows, labels = log_p.flatten(0, -2), labels.flatten()
    wrong = F.nll_loss(rows, labels, ignore_index=PADDING, reduction="sum")
    if not smoothing:
        return wrong
    spread = -rows.sum(-1).masked_fill(labels == PADDING, 0).sum()
    return wrong * (1 - smoothing) + spread * (smoothing / rows.shape[-1])


def log_probabilities(logits: Float[Tensor, "*target W"]) -> Float[Tensor, "*target W"]:
    return wide(logits).log_softmax(-1)


def divergence(
    log_p: Float[Tensor, "*target W"], log_q: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"]
) -> Float[Tensor, ""]:
    """KL(p ‖ q) = Σ p · (log p − log q)"""
    by_token = (log_p.exp() * (log_p - log_q)).sum(-1)
    return by_token.masked_fill(labels == PADDING, 0).sum()


def divergence_both_ways(
    log_p: Float[Tensor, "*target W"], log_q: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"]
) -> Float[Tensor, ""]:
    """KL(p ‖ q) + KL(q ‖ p) = Σ (p − q) · (log p − log q)"""
    by_token = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)
    return by_token.masked_fill(labels == PADDING, 0).sum()


def wide(logits: Tensor) -> Tensor:
    """The logits in float32 at least: 16 bits are not enough for sums over a vocabulary."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
