"""`manyheads data`: check a corpus, clean it, or replace its targets by a model's translations."""

import json
import os
import sys
from typing import Annotated

from cyclopts import App, Parameter

from manyheads.cli.options import Beam, Device, Files, Json, LengthPenalty, Model, Others, Precision, Whole, say
from manyheads.cli.output import check_folder
from manyheads.errors import how_many

__all__ = ["app", "check", "clean", "distill"]

app = App(
    name="data",
    help="""Check, clean or distill sentence pairs.

```
manyheads data check pairs.tsv --against test.tsv
manyheads data clean pairs.tsv --out clean.tsv --drop duplicate,swapped,ratio=4
manyheads data distill runs/teacher pairs.tsv --out distilled.tsv
```
""",
)

Names = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]


@app.command
def check(
    *files: str,
    against: Files = (),
    model: str | None = None,
    source: str | None = None,
    target: str | None = None,
    examples: Whole = 2,
    as_json: Json = False,
) -> None:
    """Report what may be wrong with sentence pairs, with counts and examples.

    ```
    manyheads data check pairs.tsv --against dev.tsv test.tsv
    manyheads data check train.de train.en more.tmx --source de --target en --examples 5
    ```

    Parameters
    ----------
    files
        Files of pairs (TSV, JSONL, TMX, PO), or source files each followed by its target file, as for `train`.
    against
        Development or test set whose pairs should not be in the files.
    model
        Count pieces with this model's tokenizer (default: with one learnt from the files).
    source
        Name of the source: a key in JSONL, a language in TMX and PO.
    target
        Name of the target, likewise.
    examples
        Examples to show of each finding.
    as_json
        Print one JSON object: rows, pairs, pieces, lengths, sides_told_apart, findings.
    """
    from manyheads.checking.api import check_data
    from manyheads.cli.alive import working
    from manyheads.cli.datatable import print_report

    with working("reading"):
        report = check_data(
            files, against=against or None, model=model, source=source, target=target, examples=examples
        )
    if as_json:
        print(json.dumps(report.as_object(), ensure_ascii=False))  # noqa: T201
    else:
        print_report(files, report)


@app.command
def clean(
    *files: str,
    out: Files,
    drop: Names = (),
    fix: Names = (),
    removed: str | None = None,
    against: Files = (),
    model: str | None = None,
    source: str | None = None,
    target: str | None = None,
) -> None:
    """Remove or mend pairs with the problems you name.

    ```
    manyheads data clean pairs.tsv --out clean.tsv --drop duplicate,same,swapped
    manyheads data clean a.tsv b.jsonl --out clean.de.gz clean.en.gz --drop ratio=4,overlap --against test.tsv --fix space
    ```

    The removed pairs go to a file of their own. Rows that are not a usable pair (blank, not UTF-8, …) are always
    removed.

    Parameters
    ----------
    files
        Files of pairs (TSV, JSONL, TMX, PO), or source files each followed by its target file.
    out
        File to write: a TSV file, or a source file and a target file; compressed if the name ends in .gz or .zst.
    drop
        Remove pairs with these findings of `manyheads data check`, separated by commas; length and ratio take a limit:
        ratio=4.
    fix
        Mend these findings instead of removing the pairs: control, invisible, quoted, space, swapped.
    removed
        TSV file for the removed pairs: file, line, reason, source, target (default: OUT.removed.tsv).
    against
        For --drop overlap and --drop seen: development or test set to compare with.
    model
        For --drop length: count pieces with this model's tokenizer (default: with one learnt from the files).
    source
        Name of the source: a key in JSONL, a language in TMX and PO.
    target
        Name of the target, likewise.
    """
    from manyheads.checking.api import clean_data
    from manyheads.checking.choices import output_places, parse_drop, split
    from manyheads.cli.alive import working
    from manyheads.cli.datatable import cleaned_lines

    wanted, mended = parse_drop(drop), list(split(fix))
    for place in reversed(output_places(out, removed)):  # check what the user named first
        check_folder(place)
    with working("cleaning"):
        cleaned = clean_data(
            files, out=out, removed=removed, drop=wanted, fix=mended, against=against or None, model=model,
            source=source, target=target,
        )  # fmt: skip
    for line in cleaned_lines(cleaned, output_places(out, removed)):
        print(line, file=sys.stderr)  # noqa: T201


@app.command
def distill(
    teacher: Model,
    /,
    *files: str,
    out: str,
    others: Others = (),
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    batch: Whole | None = None,
    resume: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    source: str | None = None,
    target: str | None = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Replace the targets of sentence pairs by a model's translations.

    ```
    manyheads data distill runs/teacher train.tsv --out distilled.tsv
    manyheads data distill runs/teacher train.tsv --out distilled.tsv --resume
    manyheads train parallel/mask --train distilled.tsv --out runs/parallel
    ```

    Another model learns more easily from such pairs, above all one that writes all tokens at once. A pair whose
    translation is not fit to learn from (blank, cut off, in a loop) keeps its own target and is counted.

    Parameters
    ----------
    files
        Files of pairs (TSV, JSONL, TMX, PO), or source files each followed by its target file, as for `train`.
    out
        TSV file to write, compressed if its name ends in .gz or .zst. Until it is complete, finished pairs are in
        OUT.part.
    batch
        Lines computed together (default: 64; 256 on a GPU if the model writes token by token).
    resume
        Continue where this command was stopped, if it was: repeat it with --resume.
    source
        Name of the source: a key in JSONL, a language in TMX and PO.
    target
        Name of the target, likewise.
    """
    from manyheads.cli.alive import counting
    from manyheads.decoding.distillation import KEPT, finished_pairs
    from manyheads.decoding.distillation import distill as distill_corpus

    check_folder(out)
    search = {"beam": beam, "length_penalty": length_penalty, "batch": batch}
    try:
        with counting("pairs translated") as count:
            found = distill_corpus(
                (teacher, *others), files, out, resume=resume, source=source, target=target, device=device,
                precision=precision, seen=count, **{name: value for name, value in search.items() if value is not None},
            )  # fmt: skip
    except KeyboardInterrupt:
        if os.path.exists(f"{out}.part"):
            kept = how_many(finished_pairs(out), "finished pair")
            print(f"stopped; {kept} in {out}.part, --resume continues from there", file=sys.stderr)  # noqa: T201
        raise
    before = f", {found.before:,} of them from before the stop" if found.before else ""
    print(f"{out}: {how_many(found.pairs, 'pair')}{before}", file=sys.stderr)  # noqa: T201
    for sentence in found.counts.sentences():
        print(sentence, file=sys.stderr)  # noqa: T201
    for reason, why in KEPT.items():
        say(found.kept[reason], f"kept with the original target, {why}")
