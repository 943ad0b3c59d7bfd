"""A corpus without the pairs that have what nobody wants, and a file of those that were removed: nothing gets lost."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from manyheads.checking.characters import FIX_TEXT
from manyheads.checking.examine import Judged, Place, Rereadable, examine
from manyheads.checking.examiner import Examiner
from manyheads.checking.findings import UNUSABLE
from manyheads.text.corpus import Corpus
from manyheads.text.output import line_writer
from manyheads.text.rows import Pair, Row

__all__ = ["Cleaned", "clean_into"]


@dataclass
class Cleaned:
    """What became of every row. read = kept + the sum of removed, each under its first reason; fixed pairs are kept."""

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
    """Pairs in their order. They are judged as they are after mending, and the files appear when all is written.

    places   a file for the removed pairs, then one for the clean ones or one for each side
    """
    cleaned = Cleaned()
    mended = Mended(Rereadable(corpora), [name for name in FIX_TEXT if name in fix])
    with ExitStack() as files:
        left_out, *sides = [files.enter_context(line_writer(path)) for path in places]
        left_out("file\tline\treason\tsource\ttarget")
        for judged in examine(mended, examiners):
            cleaned.read += 1
            reasons = [name for name in judged.findings if name in drop or name in UNUSABLE]
            if reasons or judged.row.pair is None:
                cleaned.removed[reasons[0]] += 1
                left_out("\t".join(record(judged, reasons)))
            else:
                cleaned.kept += 1
                pair = judged.row.pair
                if "swapped" in fix and "swapped" in judged.findings:
                    pair, cleaned.fixed["swapped"] = pair[::-1], cleaned.fixed["swapped"] + 1
                write_pair(pair, sides, cleaned)
    cleaned.fixed += mended.counts
    return cleaned


class Mended:
    """Rows whose texts are rid of what is to be fixed; how many were is that of one reading."""

    def __init__(self, rows: Rereadable, fixes: Sequence[str]) -> None:
        self.rows, self.fixes = rows, fixes
        self.counts: Counter[str] = Counter()

    def __call__(self) -> Iterator[Place]:
        self.counts.clear()
        for corpus, row in self.rows():
            yield corpus, self.mend(row)

    def mend(self, row: Row) -> Row:
        if row.pair is None:
            return row
        source, target = row.pair
        for name in self.fixes:
            fix = FIX_TEXT[name]
            before, (source, target) = (source, target), (fix(source), fix(target))
            self.counts[name] += before != (source, target)
        return row._replace(pair=(source, target))


def record(judged: Judged, reasons: Sequence[str]) -> list[str]:
    source, target = judged.row.pair or (judged.row.text, "")
    texts = [without_tabs(text) for text in (str(judged.corpus), source, target)]
    return [texts[0], str(judged.row.line), ",".join(reasons), *texts[1:]]


def write_pair(pair: Pair, sides: Sequence[Callable[[str], object]], cleaned: Cleaned) -> None:
    if len(sides) == 2:
        for write, text in zip(sides, pair, strict=True):
            write(text)
        return
    cleaned.tabs += "\t" in pair[0] or "\t" in pair[1]
    sides[0]("\t".join(map(without_tabs, pair)))


def without_tabs(text: str) -> str:
    """A tab within a text would be a column of its own."""
    return text.replace("\t", " ").replace("\n", " ")
