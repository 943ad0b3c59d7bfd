"""Sequence-level distillation (Kim and Rush 2016): a corpus as a teacher model would have translated it.

    distill("runs/teacher", "train.tsv", out="distilled.tsv")

The sources stay, in order; the targets become the teacher's translations, for another model to learn from. A teacher
translates the same thing the same way each time, where people vary. A model that writes all tokens at once, none of
which knows of the others, is then less often torn between two translations. A translation that nobody should learn from
(blank, cut off, looping, or from numbers that are not finite) is counted, and its pair keeps the original target.

A run that was stopped continues with resume=True. With the same number of threads, or on the same GPU, the file is then
the same as without the stop, to the last bit.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from manyheads.decoding.ensemble import ensemble
from manyheads.decoding.loading import load_translator
from manyheads.decoding.translation import Translation
from manyheads.errors import InputError, OptionError
from manyheads.modelfolder import find_model
from manyheads.storage import read_manifest
from manyheads.text.columns import without_tabs
from manyheads.text.corpus import Corpus, Counts, Pair, Paths, check_paths, files_of, format_of, holds_pairs, read_pairs
from manyheads.text.output import check_apart
from manyheads.text.parallel import sha256
from manyheads.text.partfile import PartFile, check_part, finished_lines

__all__ = ["KEPT", "Distilled", "distill", "finished_pairs"]

LOT = 1_024
"""Pairs that are translated and then saved together: seconds of work."""

KEPT = {
    "not finite": "because of numbers that are not finite (--precision bf16 or fp32 holds larger ones)",
    "cut off": "because the translation was cut off at the limit on its length",
    "looped": "because the translation ends with the same few pieces again and again",
    "blank": "because the translation is blank",
}
"""Why a pair keeps its own target."""


@dataclass
class Distilled:
    """The outcome of a distillation.

    pairs    pairs written
    before   how many of them were there when a stopped run resumed
    kept     pairs that keep their own target, by reason
    counts   what was found in the files
    """

    pairs: int = 0
    before: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    counts: Counts = field(default_factory=Counts)


def distill(
    teacher: str | Path | Sequence[str | Path],
    data: Paths,
    out: str | Path,
    *,
    resume: bool = False,
    source: str | None = None,
    target: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    seen: Callable[[int, int], object] = lambda done, of: None,
    **options: float,
) -> Distilled:
    """Write `out`, a TSV file, compressed if its name ends in .gz or .zst.

    teacher          a run folder or a bundled model; several form an ensemble
    source, target   what the sides are called in files that name them
    seen             called now and then with the number of pairs done and of all pairs
    …                options of the search: beam, length_penalty, batch, …
    """
    check_output(out)
    check_part(out, resume)
    folders = [teacher] if isinstance(teacher, (str, Path)) else list(teacher)
    loaded = [load_translator(folder, device, precision) for folder in folders]
    translator = (loaded[0] if len(loaded) == 1 else ensemble(loaded)).naming(source, target)
    search = translator.search(**options)
    corpora = check_paths(data, "data distill", translator.recipe.data.reading)
    check_files(corpora, out)
    sums = read_sums(corpora)
    made_from = {
        "teacher": [read_manifest(find_model(folder)) for folder in folders],
        "corpus": [
            sums,
            [asdict(corpus.reading) for corpus in corpora],
            [format_of(path) for path in files_of(corpora)],
        ],
        "search": asdict(search),
        "precision": translator.precision,
    }
    counts = look_through(corpora)
    with PartFile(out, made_from, LOT, is_line) as part:
        found = Distilled(before=part.done, counts=counts)
        pairs = islice((pair for corpus in corpora for _, pair in read_pairs(corpus, Counts())), part.done, None)
        while lot := list(islice(pairs, LOT)):
            seen(part.done, counts.pairs)
            translations = translator.translate_distinct([source for source, _ in lot], search)
            part.add(list(map(as_line, lot, translations)))
        if part.done != counts.pairs or read_sums(corpora) != sums:
            raise InputError(
                f"a corpus must not change while it is distilled, got a different one in {', '.join(map(str, corpora))}",
                hint=f"the translations so far are in {part.place}",
            )
        part.finish(lambda line: counted(line, found))
    return found


def finished_pairs(out: str | Path) -> int:
    """How many pairs a stopped run has finished, from which it can be resumed."""
    return finished_lines(out, LOT)


def check_output(out: str | Path) -> None:
    if os.path.exists(out) and not os.path.isfile(out):
        raise OptionError(f"distilled pairs must be written to a file, got {out}")
    if (holds_pairs(str(out)) and format_of(str(out)) != ".tsv") or format_of(str(out)) == ".csv":
        raise OptionError(
            f"distilled pairs must be written as TSV, got {out}", hint="name it distilled.tsv, or distilled.tsv.gz"
        )


def check_files(corpora: Sequence[Corpus], out: str | Path) -> None:
    """Refuse a corpus that is not read from files (it is read several times), or that `out` would overwrite."""
    read = files_of(corpora)
    for path in read:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OptionError(f"a corpus to distil must be read from files, got {path}")
    check_apart(out, read)


def read_sums(corpora: Sequence[Corpus]) -> list[str]:
    return [sha256(path) for path in files_of(corpora)]


def look_through(corpora: Sequence[Corpus]) -> Counts:
    """Count what the corpora hold: faults are reported before hours of work, not after."""
    counts = Counts()
    for corpus in corpora:
        for number, pair in read_pairs(corpus, counts):
            counts.note("tab", corpus, number, any("\t" in text for text in pair))
    if not counts.pairs:
        raise InputError(
            f"there must be a pair to distil, got none in {', '.join(map(str, corpora))}: {'; '.join(counts.sentences())}"
        )
    return counts


def as_line(pair: Pair, translation: Translation) -> str:
    """Three columns: why the pair keeps its own target, if it does; the source; the target."""
    reason = fault_of(translation)
    chosen = pair[1] if reason else translation.text
    return "\t".join((reason, *map(without_tabs, (pair[0], chosen))))


def is_line(line: str) -> bool:
    """True if the line looks as if `as_line` had written it."""
    reason, *pair = line.split("\t")
    return reason in ("", *KEPT) and len(pair) == 2


def fault_of(translation: Translation) -> str:
    """Why nobody should learn from this translation; an empty string if there is no reason."""
    faults = {
        "not finite": not translation.finite,
        "cut off": translation.truncated,
        "looped": translation.looped,
        "blank": not translation.text.strip(),
    }
    return next((name for name, so in faults.items() if so), "")


def counted(line: str, found: Distilled) -> str:
    reason, _, pair = line.partition("\t")
    found.pairs += 1
    if reason:
        found.kept[reason] += 1
    return pair
