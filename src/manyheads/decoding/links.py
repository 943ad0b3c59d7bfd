"""Links between words, and how they are written. Nothing here imports torch."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Alignment", "Link", "moses"]

Link = tuple[int, int]
"""(source word, target word), both from 0."""


@dataclass(frozen=True)
class Alignment:
    """The links of a pair, in order.

    truncated   the pair is longer than what is read in one pass: the rest has no links
    """

    links: tuple[Link, ...]
    truncated: bool = False

    def __str__(self) -> str:
        return moses(self.links)


def moses(links: Sequence[Link]) -> str:
    """The links in the format of Moses, fast_align and others: 0-0 1-2 2-1."""
    return " ".join(f"{source}-{target}" for source, target in links)
