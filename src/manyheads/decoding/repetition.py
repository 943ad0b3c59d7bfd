"""Outputs that repeat themselves: how to forbid it, and how to notice it."""

from collections.abc import Iterator, Sequence

__all__ = ["looped", "would_repeat"]

LONGEST_LOOP = 10
"""The most pieces in a sequence that is repeated."""

ROUNDS, PIECES = 4, 8
"""A sequence repeated this often, and this long in all, is no mere "very, very, very good"."""


def would_repeat(written: Sequence[int], size: int) -> Iterator[int]:
    """Pieces that would complete an n-gram of `size` that is written already."""
    before = size - 1
    if len(written) < size:
        return
    last = written[len(written) - before :]
    for place in range(len(written) - before):
        if written[place : place + before] == last:
            yield written[place + before]


def looped(ids: Sequence[int]) -> bool:
    """True if the ids end with one short sequence, again and again."""
    return any(repeats(ids, size, max(ROUNDS * size, PIECES)) for size in range(1, LONGEST_LOOP + 1))


def repeats(ids: Sequence[int], size: int, pieces: int) -> bool:
    """True if the last `pieces` repeat with a period of `size`."""
    end = ids[-pieces:]
    return len(end) == pieces and end[size:] == end[:-size]
