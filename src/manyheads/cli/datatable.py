"""Tables of what was found in a corpus, and the summary of a cleaned one. Eighty columns are enough."""

from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table

from manyheads.checking.characters import visible
from manyheads.checking.clean import Cleaned
from manyheads.checking.findings import FINDINGS, UNUSABLE
from manyheads.checking.report import Example, Lengths, Report
from manyheads.cli.options import Out
from manyheads.errors import how_many

__all__ = ["cleaned_lines", "print_report"]


def print_report(files: Sequence[str], report: Report) -> None:
    out = Out()
    rows = "" if report.rows == report.pairs else f" in {how_many(report.rows, 'row')}"
    out.print(f"[bold]{escape(' '.join(files))}[/]: {how_many(report.pairs, 'pair')}{rows}\n", soft_wrap=True)
    if report.pairs:
        out.print(length_table(report))
        out.print(f"(pieces: {escape(report.pieces)})\n", soft_wrap=True)
    out.print(finding_table(report) if report.found else "nothing found")
    if report.not_found:
        out.print(f"\nnone with: {', '.join(report.not_found)}")
    if not report.judges_sides:
        out.print("the sides look too much alike to tell their languages apart: swapped and language were not checked")
    for name in report.found if report.most_examples else ():
        out.print(f"\n[bold]{name}[/]")
        for example in report.examples[name]:
            out.print(example_lines(example, report.files > 1, out.width), markup=False, soft_wrap=True)


def length_table(report: Report) -> Table:
    limit = f"over {report.limits['length']:g}"
    table = Table(box=None, pad_edge=False)
    table.add_column("pieces")
    for column in ("mean", "median", "95 %", "99 %", "longest", limit):
        table.add_column(column, justify="right")
    for name, side in (("source", report.source), ("target", report.target)):
        table.add_row(name, *length_cells(side) if side else ())
    return table


def length_cells(side: Lengths) -> list[str]:
    return [f"{side.mean:.1f}", *(f"{n:,}" for n in (side.median, side.most_95, side.most_99, side.longest, side.over))]


def finding_table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("finding", no_wrap=True)
    table.add_column("pairs", justify="right", no_wrap=True)
    table.add_column("%", justify="right", no_wrap=True)
    table.add_column("")
    for name in report.found:
        table.add_row(name, f"{report.counts[name]:,}", share(report.percent(name)), report.meaning(name))
    return table


def share(percent: float) -> str:
    return f"{percent:.2f}" if percent >= 0.005 else "<0.01"


def example_lines(example: Example, several_files: bool, width: int) -> str:
    """The place of an example and both texts, on one line if they fit, otherwise the target below the source."""
    place = f"  {file_name(example.file)}:{example.line}  " if several_files else f"  {example.line}  "
    source, target = visible(example.source[:1_000]), visible(example.target[:1_000])
    if len(place) + len(source) + len(target) + 3 <= width:
        return f"{place}{source} → {target}" if target else place + source
    below = f"\n{' ' * len(place)}→ {cut(target, width - len(place) - 2)}" if target else ""
    return place + cut(source, width - len(place)) + below


def file_name(name: str) -> str:
    return name if len(name) <= 24 else f"…{name[-23:]}"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(1, width - 1)]}…"


def cleaned_lines(cleaned: Cleaned, outputs: Sequence[str]) -> Iterator[str]:
    removed, *out = outputs
    yield f"{cleaned.read:,} read, {cleaned.kept:,} kept in {' and '.join(out)}, {cleaned.removed.total():,} removed to {removed}"
    for name in (*UNUSABLE, *FINDINGS):
        if cleaned.removed[name]:
            yield f"  {cleaned.removed[name]:,} {name}"
    for name, count in cleaned.fixed.items():
        if count:
            yield f"  {count:,} mended: {name}"
    if cleaned.tabs:
        yield f"  {cleaned.tabs:,} with a tab inside, kept with a space instead"
