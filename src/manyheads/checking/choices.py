"""What a user chooses to drop, to mend and to write, checked before anything is read."""

import math
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from manyheads.checking.findings import FINDINGS, FIXES
from manyheads.errors import OptionError, did_you_mean
from manyheads.text.corpus import check_paths, files_of, format_of, holds_pairs

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
    formats = [format_of(name) if holds_pairs(name) else None for name in out]
    if formats not in ([".tsv"], [None], [None, None]):
        raise OptionError(
            f"--out takes a TSV file, or a source file and a target file, got {' '.join(out)}",
            hint="--out clean.tsv, or --out clean.de clean.en",
        )
    corpora = check_paths(files, "data clean")
    if weighted := [corpus for corpus in corpora if corpus.weight != 1]:
        raise OptionError(f"a clean corpus has every pair once, got a weight on {weighted[0]}")
    places = [removed or f"{out[0]}.removed.tsv", *out]
    refuse_twice(places, files_of(corpora))
    return places


def refuse_twice(written: Sequence[str], read: Sequence[str]) -> None:
    """Devices and pipes may be named twice: /dev/null takes everything."""
    real = Counter(os.path.realpath(path) for path in (*read, *written))
    for path in written:
        if real[os.path.realpath(path)] > 1 and (os.path.isfile(path) or not os.path.exists(path)):
            raise OptionError(f"what is written must differ from what is read and from each other, got {path} twice")
