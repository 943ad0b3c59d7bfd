"""A corpus without the pairs that nobody wants, and a file of those that were removed: nothing gets lost."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from manyheads.checking.examine import Place, Rereadable, examine
from manyheads.checking.examiner import Examiner
from manyheads.checking.findings import UNUSABLE
from manyheads.checking.mend import Mended
from manyheads.text.columns import without_tabs
from manyheads.text.corpus import Corpus
from manyheads.text.output import line_writer
from manyheads.text.rows import Pair

__all__ = ["Cleaned", "clean_into"]


@dataclass
class Cleaned:
    """What became of every row.

    read = kept + the sum of removed, each under its first reason; `fixed` counts pairs that are kept.
    """

    read: int = 0
    kept: int = 0
    removed: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)
    tabs: int = 0


def clean_into(
    places: Sequence[str],
    corpora: Sequence[Corpus],
    examiners: Sequence[Examiner],
    drop: Collection[str],
    fix: Collection[str],
) -> Cleaned:
    """Write the pairs in order, judged as they are after mending. The files appear when everything is written.

    places   a file for the removed pairs, then one for the clean ones or one for each side
    """
    cleaned = Cleaned()
    with ExitStack() as files:
        left_out, *sides = [files.enter_context(line_writer(path)) for path in places]
        left_out("file\tline\treason\tsource\ttarget")
        for place, findings in examine(Mended(Rereadable(corpora), fix), examiners):
            cleaned.read += 1
            reasons = [name for name in findings if name in drop or name in UNUSABLE]
            if reasons or place.row.pair is None:
                cleaned.removed[reasons[0]] += 1
                left_out("\t".join(record(place, reasons)))
            else:
                cleaned.kept += 1
                cleaned.fixed.update(place.fixed)
                write_pair(place.row.pair, sides, cleaned)
    return cleaned


def record(place: Place, reasons: Sequence[str]) -> list[str]:
    """The row as it was read, not as it was mended: nothing gets lost."""
    name = str(place.corpus).encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # a name need not be UTF-8
    texts = place.before or place.row.pair or (place.row.text, "")
    return [without_tabs(name), str(place.row.line), ",".join(reasons), *map(without_tabs, texts)]


def write_pair(pair: Pair, sides: Sequence[Callable[[str], object]], cleaned: Cleaned) -> None:
    if len(sides) == 2:
        for write, text in zip(sides, pair, strict=True):
            write(text)
        return
    cleaned.tabs += "\t" in pair[0] or "\t" in pair[1]
    sides[0]("\t".join(map(without_tabs, pair)))
