"""The training set as plain text on disk, because it is read several times and may come through a pipe."""

import hashlib
import shutil
from collections.abc import Container, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self
from zlib import crc32

from manyheads.errors import InputError
from manyheads.text.corpus import Corpus, Counts, Pair, read_pairs

__all__ = ["BLOCK", "Place", "Spool", "read_spool"]

SOURCE, TARGET = "source.txt", "target.txt"

Place = tuple[int, int]
"""(number of the corpus, line in it)"""

BLOCK = 10_000
HELD_OUT = 1_000
"""Pairs held out if there is no development set: about every twentieth, but not many more than this."""

LEARNT_FROM = 500_000
"""Pairs that a vocabulary is learnt from; of more, every n-th. More would cost memory and hardly change the result."""


class Spool:
    """The pairs of `corpora`, one corpus after the other.

    None of the text stays in memory, however many pairs there are.

    digest   SHA-256 sum of the text
    marks    positions in the source and target files, in bytes: before each block of pairs, and at the end
    """

    def __init__(self, folder: Path, counts: Counts, corpora: Sequence[Corpus], dev: Sequence[Pair] = ()) -> None:
        self.folder, self.counts, self.corpora = folder, counts, corpora
        self.dev = set(dev)
        self.held_out_below, self.spared = 0, frozenset[int]()
        self.marks: list[tuple[int, int]] = [(0, 0)]
        folder.mkdir(exist_ok=True)
        try:
            self.digest = self.write()
        except (InputError, OSError):  # unusable data leaves nothing behind
            shutil.rmtree(folder)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder)

    def write(self) -> str:
        digest, pairs = hashlib.sha256(), 0
        with open(self.folder / SOURCE, "wb") as sources, open(self.folder / TARGET, "wb") as targets:
            for n, corpus in enumerate(self.corpora):
                for line, (source, target) in read_pairs(corpus, self.counts):
                    left, right = f"{source}\n".encode(), f"{target}\n".encode()
                    sources.write(b"%d %d " % (n, line))
                    sources.write(left)
                    targets.write(right)
                    digest.update(left)
                    digest.update(right)
                    if (source, target) in self.dev:
                        self.counts.note("in_dev", corpus, line)
                    pairs += 1
                    if pairs % BLOCK == 0:
                        self.marks.append((sources.tell(), targets.tell()))
            self.marks.append((sources.tell(), targets.tell()))
        return digest.hexdigest()

    def hold_out(self) -> list[Pair]:
        """Take about every twentieth pair, or fewer, for development; these pairs are not trained on.

        A source is held out with all its targets, chosen by its checksum, so a repeated pair, or a word with two
        pronunciations, is never on both sides. One text of each label is spared, so that only labels that are also
        learnt are held out.
        """
        pairs = self.counts.pairs
        if pairs < 2:
            raise InputError(
                f"there must be at least two pairs if some are to be held out, got {pairs}",
                hint="--dev names a development set",
            )
        spared = self.last_of_labels()
        lowest = min((n for _, (source, _) in self.pairs() if (n := checksum(source)) not in spared), default=None)
        if lowest is None:
            raise InputError(
                f"a text of each label must remain for training if some are to be held out, got {pairs:,} texts, none of them to spare",
                hint="in TSV the label comes first; --dev names a development set",
            )
        limit = max(2**32 // max(20, -(-pairs // HELD_OUT)), lowest + 1)  # at least one
        spared = frozenset(number for number in spared if number < limit)
        held_out = [pair for _, pair in self.pairs() if is_held_out(checksum(pair[0]), limit, spared)]
        self.held_out_below, self.spared = limit, spared
        self.counts.pairs -= len(held_out)
        return held_out

    def last_of_labels(self) -> frozenset[int]:
        """For each label, the checksum that would be held out last, which as a rule never is."""
        if not self.corpora[0].reading.labels:
            return frozenset()
        last: dict[str, int] = {}
        for _, (text, label) in self.pairs():
            last[label] = max(last.get(label, 0), checksum(text))
        return frozenset(last.values())

    def pairs(self) -> Iterator[tuple[Place, Pair]]:
        """All pairs that are not held out."""
        return read_spool(self.folder, self.marks[0], self.marks[-1], self.held_out_below, self.spared)

    def sources(self) -> Iterator[str]:
        """The sources that a vocabulary is learnt from."""
        return (pair[0] for _, pair in self.some())

    def targets(self) -> Iterator[str]:
        return (pair[1] for _, pair in self.some())

    def all_targets(self) -> Iterator[str]:
        """Every target that is not held out: if they are labels, none may be missed."""
        return (pair[1] for _, pair in self.pairs())

    def some(self) -> Iterator[tuple[Place, Pair]]:
        return islice(self.pairs(), 0, None, max(1, -(-self.counts.pairs // LEARNT_FROM)))


def read_spool(
    folder: Path, start: tuple[int, int], end: tuple[int, int], held_out_below: int, spared: Container[int]
) -> Iterator[tuple[Place, Pair]]:
    """The pairs between two marks, except those that are held out."""
    with open(folder / SOURCE, "rb") as sources, open(folder / TARGET, "rb") as targets:
        sources.seek(start[0])
        targets.seek(start[1])
        left = end[0] - start[0]
        while left > 0:
            source, target = sources.readline(), targets.readline()
            left -= len(source)
            corpus, line, text = source[:-1].split(b" ", 2)
            if not is_held_out(crc32(text), held_out_below, spared):
                yield (int(corpus), int(line)), (text.decode(), target[:-1].decode())


def is_held_out(number: int, below: int, spared: Container[int]) -> bool:
    """Whether a source with this checksum is held out."""
    return number < below and number not in spared


def checksum(text: str) -> int:
    return crc32(text.encode())
