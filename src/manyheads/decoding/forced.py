"""How likely a given target is: the model is made to write it.

B pairs · S source tokens · T target tokens
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.batching import batches_by_tokens, evaluating, pad
from manyheads.decoding.ensemble import Ensemble
from manyheads.decoding.translation import ForcedScore
from manyheads.models.transformer import Transformer
from manyheads.text.tokenizer import BEGIN, PADDING

__all__ = ["behind_begin", "forced", "log_p_of", "score_ids"]

SENTENCE = 32
"""Tokens that each of the `batch` sentences stands for, however they are spread over pairs."""


@torch.no_grad()
def score_ids(
    model: Transformer | Ensemble, sources: Sequence[list[int]], targets: Sequence[list[int]], most: int, batch: int
) -> list[ForcedScore]:
    """Score every pair of ids, each with its end. Only the first `most` ids of a side count.

    `batch` sentences of 32 tokens are computed together, or as many tokens in longer or shorter ones.
    """
    lengths = [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
    sources, targets = ([ids[:most] for ids in side] for side in (sources, targets))
    scores = [ForcedScore(0.0, 0)] * len(lengths)
    with evaluating(model):
        for rows in batches_by_tokens([min(most, length) for length in lengths], batch * SENTENCE):
            log_p = forced(model, [sources[n] for n in rows], [targets[n] for n in rows])
            for n, value in zip(rows, log_p, strict=True):
                scores[n] = ForcedScore(value, len(targets[n]), truncated=lengths[n] > most)
    return scores


def forced(model: Transformer | Ensemble, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
    """log P(target | source) of each pair of a batch."""
    device = model.words.weight.device
    source, labels = pad(sources).to(device), pad(targets).to(device)
    return log_p_of(labels, model(source, behind_begin(labels))).sum(1, dtype=torch.float64).tolist()


def behind_begin(labels: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """What the decoder reads where it is to write the labels."""
    return torch.cat([torch.full_like(labels[:, :1], BEGIN), labels[:, :-1]], 1)


def log_p_of(labels: Int[Tensor, "B T"], logits: Float[Tensor, "B T W"]) -> Float[Tensor, "B T"]:
    """log P of each label; 0 for padding."""
    logits = logits.float()
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PADDING, reduction="none")
    return -loss.view_as(labels)
