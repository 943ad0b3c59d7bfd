"""Rows with the chosen fixes.

They are judged as they are afterwards: a pair swapped back may be one of the test set.
"""

from collections.abc import Collection, Iterator, Sequence

from manyheads.checking.characters import FIX_TEXT
from manyheads.checking.examine import Place, Rereadable, judge_block, learn, split_into_blocks
from manyheads.checking.languages import Languages

__all__ = ["Mended"]


class Mended:
    """The rows of corpora, mended, as often as they are requested.

    Learning which pairs are swapped takes one reading.
    """

    def __init__(self, rows: Rereadable, fix: Collection[str]) -> None:
        self.rows = rows
        self.fixes = [name for name in FIX_TEXT if name in fix]
        self.languages = Languages() if "swapped" in fix else None
        if self.languages:
            learn(self.with_texts_mended(), [self.languages])

    def __call__(self) -> Iterator[Place]:
        places = self.with_texts_mended()
        return swap_back(places, self.languages) if self.languages else places

    def with_texts_mended(self) -> Iterator[Place]:
        return (mend_texts(place, self.fixes) for place in self.rows())


def mend_texts(place: Place, fixes: Sequence[str]) -> Place:
    """Apply fixes to both sides. A side with nothing but blanks left becomes "", as when it is read."""
    pair, fixed = place.row.pair, []
    if pair is None:
        return place
    source, target = pair
    for name in fixes:
        before, fix = (source, target), FIX_TEXT[name]
        source, target = fix(source), fix(target)
        if before != (source, target):
            fixed.append(name)
    mended = source if source.strip() else "", target if target.strip() else ""
    return place._replace(row=place.row._replace(pair=mended), before=pair, fixed=tuple(fixed))


def swap_back(places: Iterator[Place], languages: Languages) -> Iterator[Place]:
    for block in split_into_blocks(places):
        for place, findings in judge_block(block, [languages]):
            yield swapped(place) if "swapped" in findings else place


def swapped(place: Place) -> Place:
    source, target = place.row.pair or ("", "")
    return place._replace(row=place.row._replace(pair=(target, source)), fixed=(*place.fixed, "swapped"))
