"""Losses of predicted tokens, as sums over the tokens that are no padding: the loop divides them by their count.

W words of the target vocabulary
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.text.tokenizer import PADDING

__all__ = ["divergence", "fused_smoothed_loss", "log_probabilities", "smoothed_loss"]


def smoothed_loss(
    logits: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"], smoothing: float
) -> Float[Tensor, ""]:
    """Cross-entropy; a share of the probability is spread over the vocabulary."""
    return F.cross_entropy(
        wide(logits).flatten(0, -2), labels.flatten(), ignore_index=PADDING, label_smoothing=smoothing, reduction="sum"
    )


def fused_smoothed_loss(
    logits: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"], smoothing: float
) -> Float[Tensor, ""]:
    """The same, to be compiled: log Σ exp(x) − (1 − s)·x_label − s·mean(x) of every row.

    Sums over rows are all there is. The label's place is found by comparing, not by gathering, whose gradient is another table
    as large as the logits. Compiled, nothing so large is ever in float32: logits are read, and their gradient is written, in
    the precision that the matrix product has.
    """
    x = wide(logits)
    word = torch.arange(x.shape[-1], device=x.device)
    label = torch.where(word == labels[..., None], x, 0).sum(-1)
    loss = x.logsumexp(-1) - (1 - smoothing) * label - smoothing * x.mean(-1)
    return loss.masked_fill(labels == PADDING, 0).sum()


def log_probabilities(logits: Float[Tensor, "*target W"]) -> Float[Tensor, "*target W"]:
    return wide(logits).log_softmax(-1)


def divergence(
    log_p: Float[Tensor, "*target W"], log_q: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"]
) -> Float[Tensor, ""]:
    """KL(p ‖ q) = Σ p · (log p − log q)"""
    by_token = (log_p.exp() * (log_p - log_q)).sum(-1)
    return by_token.masked_fill(labels == PADDING, 0).sum()


def wide(logits: Tensor) -> Tensor:
    """In float32 at least: sums over a vocabulary are not for 16 bits."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
