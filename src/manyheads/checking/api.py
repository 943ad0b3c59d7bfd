"""`data check` and `data clean`, without the command line."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from manyheads.checking.choices import check_choices, check_outputs, output_places
from manyheads.checking.clean import Cleaned, clean_into
from manyheads.checking.examine import Rereadable, examine
from manyheads.checking.examiner import Examiner
from manyheads.checking.findings import FINDINGS
from manyheads.checking.languages import Languages
from manyheads.checking.lengths import PIECES, Pieces, Ratio
from manyheads.checking.repeats import Overlap, Repeats
from manyheads.checking.report import Lengths, Report
from manyheads.checking.scripts import Scripts
from manyheads.checking.texts import Texts
from manyheads.errors import OptionError
from manyheads.recipe import DataConfig
from manyheads.storage import read_file
from manyheads.text.corpus import Corpus, Counts, Paths, ReadOptions, check_paths, read_pairs
from manyheads.text.vocabulary import Vocabulary

__all__ = ["check_data", "clean_data"]

Limits = Mapping[str, float]


def check_data(
    files: Paths,
    *,
    against: Paths | None = None,
    model: str | Path | None = None,
    source: str | None = None,
    target: str | None = None,
    examples: int = 2,
) -> Report:
    """Look for everything that may be wrong with pairs.

    against          files whose pairs should not be among them: a development or test set
    model            the model whose pieces are counted; without one, pieces are learnt
    source, target   names of the sides in JSONL and TMX files
    """
    if examples < 0:
        raise OptionError(f"--examples must be at least 0, got {examples}")
    reading = DataConfig(source=source, target=target, bad_lines="skip").reading
    corpora = check_paths(files, "data check", reading)
    pieces = Pieces(load_vocabulary(model) if model else None, limit_of("length"))
    languages = Languages()
    examiners: list[Examiner] = [
        Texts(), Repeats(), Ratio(limit_of("ratio")), Scripts(), languages, pieces,
        *overlap(compared_with(against, reading)),
    ]  # fmt: skip
    looked_for = tuple(name for name in FINDINGS if name == "newline" or name in found_by(examiners))
    report = Report(len(corpora), looked_for, examples, limits={name: limit_of(name) for name in ("length", "ratio")})
    report.add(examine(Rereadable(corpora), examiners))
    report.source, report.target = (Lengths.of(lengths, pieces.limit) for lengths in pieces.lengths)
    report.pieces = f"of {model}" if model else f"byte pairs, {PIECES:,} at most, learnt from this data"
    report.judges_sides = languages.told_apart
    return report


def clean_data(
    files: Paths,
    *,
    out: Paths,
    removed: str | os.PathLike[str] | None = None,
    drop: Limits,
    fix: Collection[str] = (),
    against: Paths | None = None,
    model: str | Path | None = None,
    source: str | None = None,
    target: str | None = None,
) -> Cleaned:
    """Write the pairs that have none of the findings in `drop`, and the others elsewhere.

    drop   findings and their limits: {"duplicate": 0, "ratio": 4}
    """
    reading = DataConfig(source=source, target=target, bad_lines="skip").reading
    corpora, compared = check_paths(files, "data clean", reading), compared_with(against, reading)
    check_choices(drop, fix, bool(compared), model is not None)
    places = output_places(out, removed)
    check_outputs(places, corpora, compared)
    examiners: list[Examiner] = [
        examiner
        for examiner in (
            Texts(), Repeats(), Ratio(drop.get("ratio", limit_of("ratio"))), Scripts(), Languages(), *overlap(compared),
        )
        if not drop.keys().isdisjoint(examiner.finds)
    ]  # fmt: skip
    if "length" in drop:
        examiners.append(Pieces(load_vocabulary(model) if model else None, drop["length"]))
    return clean_into(places, corpora, examiners, drop, fix)


def found_by(examiners: Sequence[Examiner]) -> set[str]:
    return {name for examiner in examiners for name in examiner.finds}


def limit_of(name: str) -> float:
    return FINDINGS[name].limit or 0.0


def compared_with(against: Paths | None, reading: ReadOptions) -> tuple[Corpus, ...]:
    """The corpora to compare with. They must be readable to the last line, or an overlap might go unnoticed."""
    return check_paths(against, "--against", replace(reading, bad_lines="error")) if against else ()


def overlap(compared: Sequence[Corpus]) -> list[Overlap]:
    pairs = (pair for corpus in compared for _, pair in read_pairs(corpus, Counts()))
    return [Overlap(pairs)] if compared else []


def load_vocabulary(model: str | Path) -> Vocabulary:
    from manyheads.modelfolder import TOKENIZER, find_model  # imports torch, which nothing else here needs

    place = find_model(model)
    return Vocabulary.loads(
        read_file(place, TOKENIZER, 64 << 20).decode("utf-8", errors="replace"), str(place / TOKENIZER)
    )
