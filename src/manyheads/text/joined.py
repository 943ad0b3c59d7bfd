"""How an encoder reads a line: begin, text, end; or, if a tab divides it, begin, text, end, second text, end.

No text spells an end, so the end between two texts can be found again in their ids: its place need not be stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from manyheads.errors import InputError, OptionError, brief
from manyheads.text.foreign import frame_of
from manyheads.text.labelled import split_texts
from manyheads.text.tokenizer import Tokenizer

__all__ = ["Frame", "join_texts"]


@dataclass(frozen=True)
class Frame:
    """The ids that stand around texts.

    most   how many ids have room between begin and end
    """

    begin: list[int]
    end: list[int]
    most: int

    @classmethod
    def of(cls, tokenizer: Tokenizer, longest: int) -> "Frame":
        """`longest` is the number of ids in a row, begin and end included."""
        begin, end = frame_of(tokenizer)
        most = longest - len(begin) - len(end)
        if most < 1:
            raise OptionError(f"embed.max_length must leave room between begin and end, got {longest}")
        return cls(begin, end, most)

    def around(self, ids: Sequence[int]) -> list[int]:
        """A complete row, cut if it would be too long."""
        return [*self.begin, *self.cut(ids), *self.end]

    def cut(self, ids: Sequence[int]) -> Sequence[int]:
        """At most as many ids as there is room for. Of two texts, the longer one is cut until both are equally long."""
        if len(ids) <= self.most:
            return ids
        middle, room = self.middle(ids), self.most - len(self.end)
        if middle == len(ids) or room < 2:
            return ids[: self.most]
        first, second = ids[:middle], ids[middle + len(self.end) :]
        kept = min(len(first), max(room - len(second), (room + 1) // 2))
        return [*first[:kept], *self.end, *second[: room - kept]]

    def kinds(self, ids: Sequence[int]) -> list[int]:
        """For each id of a row, 0 up to the end of the first text and 1 after it."""
        middle = self.middle(ids[len(self.begin) : len(ids) - len(self.end)])
        first = min(len(self.begin) + middle + len(self.end), len(ids))
        return [0] * first + [1] * (len(ids) - first)

    def middle(self, ids: Sequence[int]) -> int:
        """The place of the end between two texts; if there is only one text, its length."""
        width = len(self.end)
        ends = (n for n, i in enumerate(ids) if width and i == self.end[0] and list(ids[n : n + width]) == self.end)
        return next(ends, len(ids))


def join_texts(tokenizer: Tokenizer, lines: Sequence[str]) -> list[list[int]]:
    """The ids of each line: those of its text, or those of both texts with an end between them."""
    _, end = frame_of(tokenizer)
    texts = [divided(line, end) for line in lines]
    ids = iter(tokenizer.encode([text for both in texts for text in both]))
    return [[i for n in range(len(both)) for i in (*(end if n else ()), *next(ids))] for both in texts]


def divided(line: str, end: list[int]) -> list[str]:
    texts = split_texts(line)
    if len(texts) == 2 and not end:
        raise InputError(f"two texts need a token between them, which this tokenizer lacks, got {brief(line)}")
    return texts
