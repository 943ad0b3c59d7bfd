"""A parallel corpus: pairs of lines from one file, or from a source file and a target file; several make a mixture.

What makes a file unusable is refused, every fault of it at once. What is wrong with single lines is counted,
the line is left out (or, for odd characters, kept), and work goes on.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from manyheads.errors import InputError, OptionError
from manyheads.text.lines import MAX_LINE, decode_line, read_lines

__all__ = ["Corpus", "Counts", "Pair", "Paths", "check_paths", "files_of", "read_every_pair", "read_pairs"]

Pair = tuple[str, str]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
SHOWN = 5
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
END_OF_FILE: Any = object()
HOLDS_PAIRS = (".tsv",)
"""How the name of a file ends that holds both sides. (Any other file that stands alone is TSV, too.)"""

PACKED = (".gz", ".zst")
WEIGHTED = re.compile(r"(.+):(\d+(?:\.\d+)?)")
HEAVIEST = 1_000


@dataclass(frozen=True)
class Corpus:
    """A file of pairs, or a source file and a target file.

    weight   how often each of its pairs is met in an epoch: 2 is twice, 0.5 every other epoch
    """

    paths: tuple[str, ...]
    weight: float = 1.0

    def __str__(self) -> str:
        return " and ".join(self.paths)


@dataclass
class Counts:
    """What was met in a corpus.

    pairs      that can be used
    blank      pairs with nothing on one side: left out
    too_long   pairs with a line of more than a megabyte or more than `data.max_length` pieces: left out
    control    pairs with control characters: kept as they are
    examples   for each of these, where the first is
    """

    pairs: int = 0
    blank: int = 0
    too_long: int = 0
    control: int = 0
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, what: str, corpus: Corpus, line: int) -> None:
        setattr(self, what, getattr(self, what) + 1)
        self.examples.setdefault(what, f"{corpus}, line {line:,}")

    def sentences(self) -> list[str]:
        """What a person should know, if there is anything."""
        said = {
            "blank": "blank on one side, left out",
            "too_long": "too long, left out",
            "control": "with control characters, kept",
        }
        return [
            f"{getattr(self, what):,} {meaning} (the first: {self.examples[what]})"
            for what, meaning in said.items()
            if getattr(self, what)
        ]


def check_paths(paths: Paths, option: str) -> tuple[Corpus, ...]:
    """What files a user names: files of pairs, and source files each followed by its target file; `file:2` has weight 2."""
    names = [str(paths)] if isinstance(paths, (str, os.PathLike)) else list(map(str, paths))
    if not names:
        raise OptionError(f"{option} takes at least one file, got none", hint=f"{option} pairs.tsv")
    corpora: list[Corpus] = []
    rest = iter(map(split_weight, names))
    for name, weight in rest:
        if len(names) == 1 or holds_pairs(name):
            corpora.append(Corpus((name,), weight or 1.0))
            continue
        target, weight = check_target(name, weight, next(rest, None), option)
        corpora.append(Corpus((name, target), weight))
    return tuple(corpora)


def split_weight(name: str) -> tuple[str, float | None]:
    """A file's name and, if it ends in one, its weight. A file that is really called so is meant as it is called."""
    match = WEIGHTED.fullmatch(name)
    if not match or os.path.exists(name):
        return name, None
    weight = float(match[2])
    if not 0 < weight <= HEAVIEST:
        raise OptionError(f"the weight of a file must be above 0 and at most {HEAVIEST:,}, got {name!r}")
    return match[1], weight


def holds_pairs(name: str) -> bool:
    """Told by the name, without what says that it is packed."""
    lower = name.lower()
    for ending in PACKED:
        lower = lower.removesuffix(ending)
    return lower.endswith(HOLDS_PAIRS)


def check_target(
    source: str, weight: float | None, following: tuple[str, float | None] | None, option: str
) -> tuple[str, float]:
    """The target file that goes with a source file, and the weight of both."""
    if following is None or holds_pairs(following[0]):
        raise OptionError(
            f"{option} takes files of pairs, and source files each followed by its target file, got {source} alone",
            hint=f"{option} pairs.tsv, or {option} pairs.de pairs.en, or several of them; the name of a file of pairs ends "
            f"in {', '.join(HOLDS_PAIRS)}",
        )
    target, behind = following
    if os.path.realpath(source) == os.path.realpath(target):
        raise OptionError(f"{option} takes a source file and a target file, got {source} twice")
    if weight is not None:
        raise OptionError(
            f"a weight stands behind the target file, got it behind {source}", hint=f"{target}:{weight:g}"
        )
    return target, behind or 1.0


def files_of(corpora: Sequence[Corpus]) -> list[str]:
    return [path for corpus in corpora for path in corpus.paths]


def read_pairs(corpus: Corpus, counts: Counts) -> Iterator[tuple[int, Pair]]:
    """(line number, (source, target)) of every usable pair; `counts` says what was left out."""
    for number, pair in read_every_pair(corpus, counts):
        if pair and all(pair):
            yield number, pair


def read_every_pair(corpus: Corpus, counts: Counts) -> Iterator[tuple[int, Pair | None]]:
    """(line number, pair) of every line: a blank side is "", and None is what is too long to be held in memory.

    Faults of the files themselves are collected and raised when their end is reached.
    """
    faults = Faults(corpus)
    number = 0
    for number, pair in read_columns(corpus, faults):
        if pair is None:
            counts.note("too_long", corpus, number)
            yield number, None
            continue
        pair = (pair[0] if pair[0].strip() else "", pair[1] if pair[1].strip() else "")
        if not all(pair):
            counts.note("blank", corpus, number)
        else:
            counts.pairs += 1
            if any(map(CONTROL.search, pair)):
                counts.note("control", corpus, number)
        yield number, pair
    faults.refuse()
    if not number:
        raise InputError(f"a corpus must have at least one pair, got {corpus}: nothing in it")


def read_columns(corpus: Corpus, faults: "Faults") -> Iterator[tuple[int, Pair | None]]:
    return read_tsv(corpus.paths[0], faults) if len(corpus.paths) == 1 else read_two(corpus.paths, faults)


class Faults:
    """What is wrong with a file: collected, so that one run shows all of it."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus, self.count = corpus, 0
        self.first: list[str] = []
        self.hint: str | None = None

    def add(self, error: InputError) -> None:
        self.count += 1
        self.hint = self.hint or error.hint
        if len(self.first) < SHOWN:
            self.first.append(error.message)

    def refuse(self) -> None:
        if self.count == 1:
            raise InputError(self.first[0], self.hint)
        if self.count:
            more = f"\n  - and {self.count - SHOWN:,} more" if self.count > SHOWN else ""
            listed = "".join(f"\n  - {message}" for message in self.first)
            raise InputError(f"{self.corpus}: {self.count:,} faults{listed}{more}", self.hint)


def read_tsv(path: str, faults: Faults) -> Iterator[tuple[int, Pair | None]]:
    for number, line in enumerate(read_lines(path, 2 * MAX_LINE), 1):
        if line is None:
            yield number, None
        elif not line.strip():
            yield number, ("", "")
        elif text := decoded(line, path, number, faults):
            columns = text.split("\t")
            if len(columns) == 2:
                yield number, (columns[0], columns[1])
            else:
                faults.add(wrong_columns(path, number, len(columns)))


def wrong_columns(path: str, number: int, count: int) -> InputError:
    return InputError(
        f"a line of a TSV file must be source TAB target, got {path}, line {number}: {count} "
        + ("column" if count == 1 else "columns"),
        hint="two files, one for each side, are given as: source-file target-file"
        if count == 1
        else f"the first two columns alone: cut -f 1,2 {path} > two-columns.tsv",
    )


def read_two(paths: Sequence[str], faults: Faults) -> Iterator[tuple[int, Pair | None]]:
    """Both files in step. Two of unequal length are read to their ends: the message gives both counts."""
    counts = [0, 0]
    both = zip_longest(read_lines(paths[0]), read_lines(paths[1]), fillvalue=END_OF_FILE)
    for number, lines in enumerate(both, 1):
        counts = [number if line is not END_OF_FILE else count for line, count in zip(lines, counts, strict=True)]
        if counts != [number, number]:
            continue
        source, target = lines
        if source is None or target is None:
            yield number, None
            continue
        left, right = decoded(source, paths[0], number, faults), decoded(target, paths[1], number, faults)
        if left is not None and right is not None:
            yield number, (left, right)
    if counts[0] != counts[1]:
        faults.add(
            InputError(
                f"source and target must have as many lines, got {counts[0]:,} in {paths[0]} and {counts[1]:,} in {paths[1]}",
                hint="a line that is missing in one file shifts all that follow: find it before you cut the longer file",
            )
        )


def decoded(line: bytes, path: str, number: int, faults: Faults) -> str | None:
    try:
        return decode_line(line, path, number)
    except InputError as error:
        faults.add(error)
        return None
