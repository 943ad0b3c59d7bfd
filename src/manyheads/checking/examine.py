"""A corpus read twice: first for examiners to learn what is usual in it, then for them to judge each pair."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

from manyheads.checking.examiner import Examiner
from manyheads.checking.findings import FINDINGS, UNUSABLE
from manyheads.errors import InputError
from manyheads.text.corpus import Corpus, read_rows
from manyheads.text.rows import Pair, Row

__all__ = ["Judged", "Place", "Rereadable", "examine", "judge_block", "learn", "split_into_blocks"]

BLOCK = 4_096
LARGEST = 1 << 20


class Place(NamedTuple):
    """A row, and where it is from.

    corpus   corpus that the row is from
    row      the row as it is judged
    before   its pair as it was read, if it went through mending
    fixed    names of the fixes that changed it
    """

    corpus: Corpus
    row: Row
    before: Pair | None = None
    fixed: tuple[str, ...] = ()


class Judged(NamedTuple):
    """A row and its findings, in the order of `FINDINGS`; if it is not a pair, the reason."""

    place: Place
    findings: tuple[str, ...]


def examine(places: Callable[[], Iterator[Place]], examiners: Sequence[Examiner]) -> Iterator[Judged]:
    """Every row, judged, in order. `places` yields all rows each time it is called."""
    learn(places(), examiners)
    for block in split_into_blocks(places()):
        yield from judge_block(block, examiners)


def learn(places: Iterator[Place], examiners: Sequence[Examiner]) -> None:
    for block in split_into_blocks(places):
        if pairs := usable(block):
            for examiner in examiners:
                examiner.learn(pairs)
    for examiner in examiners:
        examiner.settle()


def judge_block(block: Sequence[Place], examiners: Sequence[Examiner]) -> Iterator[Judged]:
    pairs = usable(block)
    verdicts = {}
    for examiner in examiners if pairs else ():
        verdicts |= examiner.judge(pairs)
    found: list[set[str]] = [set() for _ in pairs]
    for name, verdict in verdicts.items():
        for n in verdict.nonzero()[0]:
            found[n].add(name)
    rest = iter(found)
    for place in block:
        if why := unusable(place.row):
            yield Judged(place, (why,))
        else:
            names = next(rest).union(place.row.notes)
            yield Judged(place, tuple(name for name in FINDINGS if name in names))


def split_into_blocks(places: Iterator[Place]) -> Iterator[list[Place]]:
    """Blocks with a limit on rows and on characters: a row may have a megabyte."""
    block, size = [], 0
    for place in places:
        block.append(place)
        size += sum(map(len, place.row.pair or ()))
        if len(block) == BLOCK or size >= LARGEST:
            yield block
            block, size = [], 0
    if block:
        yield block


def usable(block: Sequence[Place]) -> list[Pair]:
    return [place.row.pair for place in block if place.row.pair and not unusable(place.row)]


def unusable(row: Row) -> str | None:
    """Why a row is not a pair to learn from."""
    if row.pair is None:
        return next(note for note in row.notes if note in UNUSABLE)
    return None if all(row.pair) else "blank"


class Rereadable:
    """The rows of corpora, as often as they are requested. What comes through a pipe is kept in a temporary file."""

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self.corpora = corpora
        self.kept: dict[Corpus, IO[str]] = {}

    def __call__(self) -> Iterator[Place]:
        for corpus in self.corpora:
            for row in self.rows(corpus):
                yield Place(corpus, row)

    def rows(self, corpus: Corpus) -> Iterator[Row]:
        if all(map(os.path.isfile, corpus.paths)):
            return readable_rows(corpus)
        return replay(self.kept[corpus]) if corpus in self.kept else self.record(corpus)

    def record(self, corpus: Corpus) -> Iterator[Row]:
        file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 — it is read again later
        for row in readable_rows(corpus):
            file.write(json.dumps([row.line, row.pair, row.notes, row.text]) + "\n")
            yield row
        self.kept[corpus] = file


def replay(file: IO[str]) -> Iterator[Row]:
    file.seek(0)
    for stored in map(json.loads, file):
        line, pair, notes, text = stored
        yield Row(line, tuple(pair) if pair else None, tuple(notes), None, text)


def readable_rows(corpus: Corpus) -> Iterator[Row]:
    """The rows of a corpus.

    A bad row is a finding, but a fault that makes the entire file unusable is still an error.
    """
    row = None
    for row in read_rows(corpus):
        if row.fault and not row.notes:
            raise row.fault
        yield row
    if row is None:
        raise InputError(f"a corpus must have at least one pair, got {corpus}: nothing in it")
