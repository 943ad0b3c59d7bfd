"""A parallel corpus: pairs of lines from one file, or from a source file and a target file; several make a mixture.

An unusable file is refused, with all its faults at once. Faults of single lines are counted: the line is left out (or,
if it only has odd characters, kept) and reading continues.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from manyheads.errors import InputError, OptionError
from manyheads.text.columns import read_tsv, read_two
from manyheads.text.counts import Counts, Faults
from manyheads.text.jsonl import read_jsonl
from manyheads.text.labelled import read_labelled_jsonl, read_labelled_tsv, read_labelled_two
from manyheads.text.lines import MAX_LINE, read_lines
from manyheads.text.po import read_po
from manyheads.text.rows import Pair, ReadOptions, Row, read_line_rows
from manyheads.text.tmx import read_tmx

__all__ = [
    "CONTROL", "TEXTS", "Corpus", "Counts", "Pair", "Paths", "ReadOptions", "check_paths", "files_of", "format_of", "holds_pairs",
    "names_sides", "read_every_pair", "read_pairs", "read_rows",
]  # fmt: skip

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
READERS: dict[str, Callable[[str, ReadOptions], Iterator[Row]]] = {
    ".tsv": read_tsv,
    ".jsonl": read_jsonl,
    ".tmx": read_tmx,
    ".po": read_po,
}
"""Readers of files with both sides, by file extension. (Any other file that stands alone is TSV.)"""

LABELLED = {".tsv": read_labelled_tsv, ".jsonl": read_labelled_jsonl}

PACKED = (".gz", ".zst")
WEIGHTED = re.compile(r"(.+):(\d+(?:\.\d+)?)")
HEAVIEST = 1_000
LOOKED_AT = 20
"""Lines that are looked at to see whether a file holds pairs."""
MIXTURES = ("--train", "data check")
"""Options that take weights. `data check` is one so that training data can be checked with the same arguments."""


AS_IT_IS, TEXTS = ReadOptions(), ReadOptions(texts=True)


@dataclass(frozen=True)
class Corpus:
    """A file of pairs, or a source file and a target file.

    weight    how often each of its pairs is used in an epoch: 2 is twice, 0.5 every other epoch
    reading   how the files are read
    """

    paths: tuple[str, ...]
    weight: float = 1.0
    reading: ReadOptions = AS_IT_IS

    def __str__(self) -> str:
        return " and ".join(self.paths)


def check_paths(paths: Paths, option: str, reading: ReadOptions = AS_IT_IS) -> tuple[Corpus, ...]:
    """The corpora that a user names.

    Names are files of pairs, and source files each followed by its target file; `file:2` has weight 2.
    """
    names = [str(paths)] if isinstance(paths, (str, os.PathLike)) else list(map(str, paths))
    if not names:
        raise OptionError(f"{option} takes at least one file, got none", hint=f"{option} pairs.tsv")
    if reading.texts:
        return tuple(text_corpus(name, option, reading) for name in names)
    if reading.labels:
        check_labelled(names, option)
    corpora: list[Corpus] = []
    rest = iter(split_weight(name, option) for name in names)
    for name, weight in rest:
        if len(names) == 1 or holds_pairs(name):
            corpora.append(Corpus((name,), weight or 1.0, reading))
            continue
        target, weight = check_target(name, weight, next(rest, None), option)
        corpora.append(Corpus((name, target), weight, reading))
    return tuple(corpora)


def text_corpus(given: str, option: str, reading: ReadOptions) -> Corpus:
    name, weight = split_weight(given, option)
    if holds_pairs(name):
        raise OptionError(
            f"{option} takes files with one text per line, got {name}, a file of pairs by its name",
            hint=f"cut -f 2 {name} > texts.txt" if format_of(name) == ".tsv" else None,
        )
    return Corpus((name,), weight or 1.0, reading)


def check_labelled(names: Sequence[str], option: str) -> None:
    for name in names:
        if holds_pairs(name) and format_of(name) not in LABELLED:
            raise OptionError(f"{option} takes texts with labels, as {' or '.join(LABELLED)}, got {name}")


def split_weight(name: str, option: str) -> tuple[str, float | None]:
    """A file's name and its weight, if it ends in one. A file that really has that name is taken by its name."""
    match = WEIGHTED.fullmatch(name)
    if not match and not os.path.exists(name) and os.path.exists(name.rpartition(":")[0]):
        raise OptionError(f"the weight of a file must be a number, got {name!r}", hint=f"{name.rpartition(':')[0]}:2")
    if not match or os.path.exists(name):
        return name, None
    if option not in MIXTURES:
        raise OptionError(f"only training data takes a weight, got {name!r} for {option}", hint=f"{option} {match[1]}")
    weight = float(match[2])
    if not 0 < weight <= HEAVIEST:
        raise OptionError(f"the weight of a file must be above 0 and at most {HEAVIEST:,}, got {name!r}")
    return match[1], weight


def holds_pairs(name: str) -> bool:
    return format_of(name) in READERS


def names_sides(name: str) -> bool:
    """Whether the file's sides are known by name, as in JSONL."""
    return holds_pairs(name) and format_of(name) != ".tsv"


def format_of(name: str) -> str:
    """The extension of a name, without the one for compression."""
    lower = name.lower()
    for ending in PACKED:
        lower = lower.removesuffix(ending)
    return os.path.splitext(lower)[1]


def check_target(
    source: str, weight: float | None, following: tuple[str, float | None] | None, option: str
) -> tuple[str, float]:
    """The target file that goes with a source file, and the weight of both."""
    if following is None or holds_pairs(following[0]):
        raise OptionError(
            f"{option} takes files of pairs, and source files each followed by its target file, got {source} alone",
            hint=f"{option} pairs.tsv, or {option} pairs.de pairs.en, or several of them; the name of a file of pairs must end "
            f"in {', '.join(READERS)}",
        )
    target, behind = following
    if os.path.realpath(source) == os.path.realpath(target):
        raise OptionError(f"{option} takes a source file and a target file, got {source} twice")
    if looks_like_pairs(source) and looks_like_pairs(target):
        raise OptionError(
            f"{option} takes a source file and a target file, got {source} and {target}: each looks like a file of pairs, with a tab in every line",
            hint=f"the name of a file of pairs must end in .tsv: mv {source} {source}.tsv (for texts with tabs in them, use .jsonl)",
        )
    if weight is not None:
        raise OptionError(
            f"a weight must come after the target file, got it after {source}", hint=f"{target}:{weight:g}"
        )
    return target, behind or 1.0


def looks_like_pairs(path: str) -> bool:
    """Judged by the first lines. A file that cannot be read a second time, or at all, is not looked at here."""
    if not os.path.isfile(path):
        return False
    with suppress(InputError):
        lines = [line for line in islice(read_lines(path, MAX_LINE), LOOKED_AT) if line]
        return bool(lines) and all(b"\t" in line for line in lines)
    return False


def files_of(corpora: Sequence[Corpus]) -> list[str]:
    return [path for corpus in corpora for path in corpus.paths]


def read_pairs(corpus: Corpus, counts: Counts) -> Iterator[tuple[int, Pair]]:
    """(line number, (source, target)) of every usable pair; `counts` records what was left out."""
    for number, pair in read_every_pair(corpus, counts):
        if pair and corpus.reading.usable(pair):
            yield number, pair


def read_every_pair(corpus: Corpus, counts: Counts) -> Iterator[tuple[int, Pair | None]]:
    """(line number, pair) of every line. A blank side is "".

    The pair is None if the line was too long to be held in memory, or was skipped. Whatever a TMX or PO file holds
    beside its pairs is counted, but is not a line of its own. Faults of the files themselves are collected, and raised
    at their end.
    """
    faults, row = Faults(corpus), None
    for row in read_rows(corpus):
        if row.fault and (corpus.reading.bad_lines == "error" or not row.notes):
            faults.add(row.fault)
            continue
        count_row(row, corpus, counts)
        if row.pair or not LINES_WITHOUT_A_PAIR.isdisjoint(row.notes):
            yield row.line, row.pair
    faults.refuse()
    if row is None:
        raise InputError(f"a corpus must have at least one pair, got {corpus}: nothing in it")


LINES_WITHOUT_A_PAIR = {"too_long", "not_utf8", "no_pair"}


def count_row(row: Row, corpus: Corpus, counts: Counts) -> None:
    if row.pair and corpus.reading.usable(row.pair):
        counts.pairs += 1
        if CONTROL.search(row.pair[0]) or CONTROL.search(row.pair[1]):
            counts.note("control", corpus, row.line)
        notes = row.notes
    else:
        notes = ("blank",) if row.pair else row.notes
    for what in notes:
        counts.note(what, corpus, row.line)


def read_rows(corpus: Corpus) -> Iterator[Row]:
    """Every row as its reader yields it, except that a side of nothing but blanks becomes ""."""
    if corpus.reading.texts:
        rows = read_line_rows(corpus.paths[0], corpus.reading, MAX_LINE, lambda number, text: Row(number, (text, "")))
    elif len(corpus.paths) == 2:
        rows = (read_labelled_two if corpus.reading.labels else read_two)(corpus.paths, corpus.reading)
    else:
        rows = reader_of(corpus)(corpus.paths[0], corpus.reading)
    for row in rows:
        if row.pair and not (row.pair[0].strip() and row.pair[1].strip()):
            source, target = row.pair
            row = row._replace(pair=(source if source.strip() else "", target if target.strip() else ""))
        yield row


def reader_of(corpus: Corpus) -> Callable[[str, ReadOptions], Iterator[Row]]:
    """The reader of a file that holds both sides."""
    ending = format_of(corpus.paths[0])
    return LABELLED.get(ending, read_labelled_tsv) if corpus.reading.labels else READERS.get(ending, read_tsv)
