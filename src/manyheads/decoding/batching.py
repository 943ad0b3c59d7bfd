"""What is computed together: blocks of lines, and in them batches of sequences.

The sequences of a batch are as equal in length as possible, padded, and computed without dropout.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Int
from torch import Tensor, nn

from manyheads.errors import OptionError, brief
from manyheads.text.tokenizer import PADDING

__all__ = [
    "CHUNK",
    "CHUNK_CHARACTERS",
    "batches_by_length",
    "batches_by_tokens",
    "blocks",
    "checked_text",
    "evaluating",
    "pad",
    "parts_of",
]

CHUNK, CHUNK_CHARACTERS = 4_096, 2_000_000
"""Lines, or characters, that are read, sorted and translated together: memory is bounded, however long the input."""


def blocks(lines: Iterable[str], most: int, characters: int) -> Iterator[list[str]]:
    """Up to `most` lines at a time; fewer if they are long."""
    block: list[str] = []
    room = characters
    for line in lines:
        block.append(checked_text(line))
        room -= len(line)
        if len(block) == most or room <= 0:
            yield block
            block, room = [], characters
    if block:
        yield block


def checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise OptionError(f"every input must be text, got {brief(text)}")
    return text


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Turn dropout off for a while, then restore it."""
    training = [part for part in parts_of(model) if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def parts_of(model: nn.Module) -> list[nn.Module]:
    """`model.modules()` in a tenth of the time. That counts: translating a sentence takes little longer."""
    found = [model]
    for part in found:
        found.extend(inner for inner in part._modules.values() if inner is not None)
    return found


def pad(sequences: list[list[int]]) -> Int[Tensor, "B T"]:
    longest = max(map(len, sequences))
    return torch.tensor([ids + [PADDING] * (longest - len(ids)) for ids in sequences])


def batches_by_length(lengths: Sequence[int], most: int, beam: int) -> Iterator[list[int]]:
    """Indices of sequences of about one length, the longest first.

    So a batch that does not fit in memory shows at once.
    """
    return batches_of(lengths, lambda length: min(most, 128 * most // (beam * length)))


def batches_by_tokens(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """The same, by tokens: as many sequences as have `tokens` together, so more of short ones."""
    return batches_of(lengths, lambda length: tokens // length)


def batches_of(lengths: Sequence[int], rows_for: Callable[[int], int]) -> Iterator[list[int]]:
    order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
    start = 0
    while start < len(order):
        rows = max(1, rows_for(lengths[order[start]]))
        yield order[start : start + rows]
        start += rows
