"""`manyheads data`: what is the matter with a corpus, a corpus without it, and one as a model would have written it."""

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
    help="""What is the matter with a corpus, a corpus without it, and one as a model would have written it.

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
    """Look through pairs for all that may be the matter with them, and report it with counts and examples.

    ```
    manyheads data check pairs.tsv --against dev.tsv test.tsv
    manyheads data check train.de train.en more.tmx --source de --target en --examples 5
    ```

    Parameters
    ----------
    files
        Files of pairs (TSV, JSONL, TMX, PO), and source files each followed by its target file, as `train` takes them.
    against
        A development or test set: its pairs should not be in the files.
    model
        Count the pieces of this model's tokenizer (default: pieces learnt from the files).
    source
        What the source is called in JSONL (a key) and TMX (a language).
    target
        What the target is called.
    examples
        How many to show of each finding.
    as_json
        One JSON object: rows, pairs, pieces, lengths, sides_told_apart, findings.
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
    """Write the pairs that have none of the findings you name; those that have one go to a file of their own.

    ```
    manyheads data clean pairs.tsv --out clean.tsv --drop duplicate,same,swapped
    manyheads data clean a.tsv b.jsonl --out clean.de.gz clean.en.gz --drop ratio=4,overlap --against test.tsv --fix space
    ```

    Rows that are no pair to learn from (blank, not UTF-8, …) are removed, too.

    Parameters
    ----------
    files
        Files of pairs (TSV, JSONL, TMX, PO), and source files each followed by its target file.
    out
        A TSV file, or a source file and a target file; packed if the name ends in .gz or .zst.
    drop
        Findings of `manyheads data check`, with commas between them; length and ratio take a limit: ratio=4.
    fix
        Mend instead of removing: control, invisible, space, swapped.
    removed
        Where the removed pairs go, as TSV: file, line, reason, source, target (default: OUT.removed.tsv).
    against
        What --drop overlap and --drop seen compare with.
    model
        Whose pieces --drop length counts (default: pieces learnt from the files).
    source
        What the source is called in JSONL (a key) and TMX (a language).
    target
        What the target is called.
    """
    from manyheads.checking.api import clean_data
    from manyheads.checking.choices import output_places, parse_drop, split
    from manyheads.cli.alive import working
    from manyheads.cli.datatable import cleaned_lines

    wanted, mended = parse_drop(drop), list(split(fix))
    for place in reversed(output_places(out, removed)):  # what was named comes first
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
    """Write the pairs of a corpus with what a model makes of their sources: what another model, above all one that writes all tokens at once, learns
    from more easily.

    ```
    manyheads data distill runs/teacher train.tsv --out distilled.tsv
    manyheads data distill runs/teacher train.tsv --out distilled.tsv --resume
    manyheads train parallel/mask --train distilled.tsv --out runs/parallel
    ```

    A pair whose translation nobody should learn from (blank, cut off, in a loop) keeps its own target, and is counted.

    Parameters
    ----------
    files
        Files of pairs (TSV, JSONL, TMX, PO), and source files each followed by its target file, as `train` takes them.
    out
        A TSV file, packed if its name ends in .gz or .zst. Until all is there, what is ready stands in OUT.part.
    batch
        Lines computed together (64; on a GPU 256).
    resume
        Go on with what was stopped, if something was: the same command, with --resume.
    source
        What the source is called in JSONL (a key) and TMX (a language).
    target
        What the target is called.
    """
    from manyheads.cli.alive import counting
    from manyheads.decoding.distillation import KEPT
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
            print(f"stopped; what is ready is in {out}.part, and --resume goes on with it", file=sys.stderr)  # noqa: T201
        raise
    before = f", {found.before:,} of them before it was stopped" if found.before else ""
    print(f"{out}: {how_many(found.pairs, 'pair')}{before}", file=sys.stderr)  # noqa: T201
    for sentence in found.counts.sentences():
        print(sentence, file=sys.stderr)  # noqa: T201
    for reason, why in KEPT.items():
        say(found.kept[reason], f"with the target of the pair itself, {why}")
