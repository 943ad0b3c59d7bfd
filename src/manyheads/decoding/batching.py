"""Sequences of different lengths, computed together: as equal in length as may be, padded, without dropout."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Int
from torch import Tensor, nn

from manyheads.text.tokenizer import PADDING

__all__ = ["batches_by_length", "evaluating", "pad"]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout for a while; then as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def pad(sequences: list[list[int]]) -> Int[Tensor, "B T"]:
    longest = max(map(len, sequences))
    return torch.tensor([ids + [PADDING] * (longest - len(ids)) for ids in sequences])


def batches_by_length(lengths: Sequence[int], most: int, beam: int) -> Iterator[list[int]]:
    """Numbers of sequences of about one length, the longest first: what does not fit in memory is known at once."""
    order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
    tokens, start = 128 * most, 0
    while start < len(order):
        rows = max(1, min(most, tokens // (beam * lengths[order[start]])))
        yield order[start : start + rows]
        start += rows
