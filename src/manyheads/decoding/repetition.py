"""Outputs that say the same again: how to forbid it, and how to notice."""

from collections.abc import Iterator, Sequence

__all__ = ["looped", "would_repeat"]

LONGEST_LOOP = 10
"""Pieces that are said again and again."""

ROUNDS, PIECES = 4, 8
"""So often, and so much in all, that it is no "very, very, very good"."""


def would_repeat(written: Sequence[int], size: int) -> Iterator[int]:
    """Pieces that would end an n-gram of `size` that is written already."""
    before = size - 1
    if len(written) < size:
        return
    last = written[len(written) - before :]
    for place in range(len(written) - before):
        if written[place : place + before] == last:
            yield written[place + before]


def looped(ids: Sequence[int]) -> bool:
    """Does it end with one short sequence, again and again?"""
    return any(repeats(ids, size, max(ROUNDS * size, PIECES)) for size in range(1, LONGEST_LOOP + 1))


def repeats(ids: Sequence[int], size: int, pieces: int) -> bool:
    """Are the last `pieces` periodic?"""
    end = ids[-pieces:]
    return len(end) == pieces and end[size:] == end[:-size]
