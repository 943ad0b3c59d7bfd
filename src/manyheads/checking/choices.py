"""What a user chooses to drop, to mend and to write, checked before anything is read."""

import math
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from manyheads.checking.findings import FINDINGS, FIXES
from manyheads.errors import OptionError, did_you_mean
from manyheads.text.corpus import Corpus, Paths, files_of, format_of, holds_pairs

__all__ = ["check_choices", "check_outputs", "output_places", "parse_drop", "split"]

STANDARD_INPUT = ("-", "/dev/stdin")


def parse_drop(words: Sequence[str]) -> dict[str, float]:
    """{"duplicate": 0, "ratio": 4} from "duplicate,ratio=4"."""
    chosen = {}
    for word in split(words):
        name, equals, value = word.partition("=")
        check_finding(name)
        limit = FINDINGS[name].limit
        if equals and limit is None:
            raise OptionError(
                f"--drop {name} takes no limit, got {word!r}",
                hint="only length and ratio take one: length=255, ratio=3",
            )
        chosen[name] = parse_limit(word, value) if equals else limit or 0.0
    return chosen


def parse_limit(word: str, value: str) -> float:
    try:
        limit = float(value)
    except ValueError:
        limit = math.nan
    check_limit(word, limit)
    return limit


def check_finding(name: str) -> None:
    if name not in FINDINGS:
        raise OptionError(f"--drop takes names of findings, got {name!r}", hint=did_you_mean(name, FINDINGS))


def check_limit(word: str, limit: float) -> None:
    if not 1 <= limit < math.inf:
        raise OptionError(f"the limit of a finding must be a number of at least 1, got {word!r}")


def split(words: Sequence[str]) -> Iterator[str]:
    return (part for word in words for part in word.split(",") if part)


def check_choices(drop: Mapping[str, float], fix: Collection[str], has_against: bool, has_model: bool) -> None:
    """Refuse unknown names, and options without effect: whoever names a test set believes that it is kept out."""
    for name, limit in drop.items():
        check_finding(name)
        if FINDINGS[name].limit is not None:
            check_limit(f"{name}={limit}", limit)
    for name in fix:
        if name not in FIXES:
            raise OptionError(
                f"--fix takes names of findings that can be mended, got {name!r}", hint=did_you_mean(name, FIXES)
            )
        if name in drop:
            raise OptionError(f"a finding cannot be both mended and dropped, got {name!r} in --fix and in --drop")
    compares = not drop.keys().isdisjoint({"overlap", "seen"})
    if compares and not has_against:
        raise OptionError("--drop overlap and --drop seen need files to compare with, got no --against")
    if has_against and not compares:
        raise OptionError(
            "--against is for --drop overlap and --drop seen, got neither", hint="--drop overlap removes its pairs"
        )
    if has_model and "length" not in drop:
        raise OptionError("--model is for --drop length, got no --drop length", hint="--drop length=255")


def output_places(out: Paths, removed: str | os.PathLike[str] | None) -> list[str]:
    """The file for the removed pairs, then the file or two for the clean ones."""
    names = [str(out)] if isinstance(out, (str, os.PathLike)) else list(map(str, out))
    return [str(removed) if removed else f"{names[0]}.removed.tsv" if names else "", *names]


def check_outputs(places: Sequence[str], corpora: Sequence[Corpus], against: Sequence[Corpus]) -> None:
    """Refuse outputs in other formats, standard input, and files that are also read or named twice."""
    _, *out = places
    formats = [format_of(name) if holds_pairs(name) else None for name in out]
    if formats not in ([".tsv"], [None], [None, None]) or ".csv" in map(format_of, out):  # CSV has commas
        raise OptionError(
            f"--out takes a TSV file, or a source file and a target file, got {' '.join(out) or 'none'}",
            hint="--out clean.tsv, or --out clean.de clean.en",
        )
    if standard := [name for name in places if name in STANDARD_INPUT]:
        raise OptionError(f"--out and --removed take files to write, got {standard[0]}, which is standard input")
    refuse_twice(places, files_of([*corpora, *against]))


def refuse_twice(written: Sequence[str], read: Sequence[str]) -> None:
    """Refuse a file that is named twice. Devices and pipes may be: /dev/null takes everything."""
    real = Counter(os.path.realpath(path) for path in (*read, *written))
    for path in written:
        if real[os.path.realpath(path)] > 1 and (os.path.isfile(path) or not os.path.exists(path)):
            raise OptionError(f"output files must differ from the input files and from each other, got {path} twice")
