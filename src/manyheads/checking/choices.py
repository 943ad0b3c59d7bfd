"""What a user chooses to drop, to mend and to write, checked before anything is read."""

import math
import os
from collections.abc import Collection, Iterator, Sequence

from manyheads.checking.findings import FINDINGS, FIXES
from manyheads.errors import OptionError, did_you_mean
from manyheads.text.corpus import check_paths, files_of, holds_pairs

__all__ = ["check_outputs", "parse_drop", "parse_fix"]


def parse_drop(words: Sequence[str]) -> dict[str, float]:
    """{"duplicate": 0, "ratio": 4} from "duplicate,ratio=4"."""
    chosen = {}
    for word in split(words):
        name, equals, value = word.partition("=")
        if name not in FINDINGS:
            raise OptionError(f"--drop takes names of findings, got {name!r}", hint=did_you_mean(name, FINDINGS))
        limit = FINDINGS[name].limit
        if equals and limit is None:
            raise OptionError(f"--drop {name} takes no limit, got {word!r}", hint="length=255 and ratio=3 take one")
        chosen[name] = parse_limit(word, value) if equals else limit or 0.0
    return chosen


def parse_limit(word: str, value: str) -> float:
    try:
        limit = float(value)
    except ValueError:
        limit = math.nan
    if not 1 <= limit < math.inf:
        raise OptionError(f"the limit of a finding must be a number of at least 1, got {word!r}")
    return limit


def parse_fix(words: Sequence[str]) -> list[str]:
    for name in (chosen := list(split(words))):
        if name not in FIXES:
            raise OptionError(f"--fix takes what can be mended, got {name!r}", hint=did_you_mean(name, FIXES))
    return chosen


def split(words: Sequence[str]) -> Iterator[str]:
    return (part for word in words for part in word.split(",") if part)


def check_outputs(
    files: Sequence[str], out: Sequence[str], removed: str | None, drop: Collection[str], fix: Collection[str]
) -> list[str]:
    """Where the removed pairs and the clean ones go; none of them is a file that is read."""
    if both := [name for name in fix if name in drop]:
        raise OptionError(f"what is mended need not be dropped, got {both[0]!r} in --fix and in --drop")
    if len(out) not in (1, 2):
        raise OptionError(f"--out takes a TSV file, or a source file and a target file, got {len(out)} files")
    for name in out:
        if holds_pairs(name) and (
            len(out) == 2 or not name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
        ):
            raise OptionError(f"--out takes a TSV file, or a source file and a target file, got {' '.join(out)}")
    places = [removed or f"{out[0]}.removed.tsv", *out]
    corpora = check_paths(files, "data clean")
    if weighted := [corpus for corpus in corpora if corpus.weight != 1]:
        raise OptionError(f"a clean corpus has every pair once, got a weight on {weighted[0]}")
    real = [os.path.realpath(path) for path in (*files_of(corpora), *places)]
    if again := [
        path
        for path in places
        if os.path.isfile(path) or not os.path.exists(path)
        if real.count(os.path.realpath(path)) > 1
    ]:
        raise OptionError(f"what is written must differ from what is read and from each other, got {again[0]} twice")
    return places
