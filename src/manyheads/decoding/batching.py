"""What is computed together: lines that are read at a time; of these, sequences as equal in length as may be, padded, without dropout."""

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
"""Lines read, sorted and translated together: memory is bounded, however long the input."""


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
        raise OptionError(f"what is translated must be text, got {brief(text)}")
    return text


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout for a while; then as it was."""
    training = [part for part in parts_of(model) if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def parts_of(model: nn.Module) -> list[nn.Module]:
    """`model.modules()`, in a tenth of its time: a sentence takes little longer than that."""
    found = [model]
    for part in found:
        found.extend(inner for inner in part._modules.values() if inner is not None)
    return found


def pad(sequences: list[list[int]]) -> Int[Tensor, "B T"]:
    longest = max(map(len, sequences))
    return torch.tensor([ids + [PADDING] * (longest - len(ids)) for ids in sequences])


def batches_by_length(lengths: Sequence[int], most: int, beam: int) -> Iterator[list[int]]:
    """Numbers of sequences of about one length, the longest first: what does not fit in memory is known at once."""
    return batches_of(lengths, lambda length: min(most, 128 * most // (beam * length)))


def batches_by_tokens(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """The same, as many as have so many tokens together: of short ones, more."""
    return batches_of(lengths, lambda length: tokens // length)


def batches_of(lengths: Sequence[int], rows_for: Callable[[int], int]) -> Iterator[list[int]]:
    order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
    start = 0
    while start < len(order):
        rows = max(1, rows_for(lengths[order[start]]))
        yield order[start : start + rows]
        start += rows
