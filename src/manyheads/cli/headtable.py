"""The head report of `manyheads inspect --data`: its progress, and a table of the heads that matter most."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from manyheads.cli.options import say

if TYPE_CHECKING:
    from manyheads.inspection.headreport import HeadFigures, HeadReport

__all__ = ["LIMIT", "report_on", "show_report"]

LIMIT = 100
"""Pairs. With this many, the 56 heads of the bundled model take one to two minutes on one core."""
SHOWN = 12
CHANCE = 0.05


def report_on(
    translator: Any, data: tuple[str, ...], limit: int, options: dict[str, Any]
) -> "tuple[HeadReport, list[Any]]":
    """(the report on pairs from files, the pairs). Progress goes to stderr."""
    from rich.progress import track

    from manyheads.inspection.headreport import report_heads
    from manyheads.text.corpus import Counts, check_paths
    from manyheads.text.parallel import read_dev

    counts = Counts()
    pairs = read_dev(check_paths(data, "--data", translator.recipe.data.reading), counts)
    say(counts.left_out, "left out: blank on one side, or too long to be a sentence")
    console = Console(file=sys.stderr, highlight=False)

    def follow(heads: Sequence[Any]) -> Iterable[Any]:
        used = min(limit, len(pairs))
        console.print(f"{len(heads)} heads, each removed in turn, on {used:,} of {len(pairs):,} pairs", soft_wrap=True)
        return track(heads, "without", console=console, transient=True, disable=not console.is_terminal)

    report = report_heads(translator, pairs, limit=limit, follow=follow, **options)
    say(report.cut, "too long to use in full: only the beginning was used")
    return report, pairs


def show_report(console: Console, report: "HeadReport") -> None:
    search = "greedy search" if report.search["beam"] == 1 else f"beam {report.search['beam']:g}"
    console.print(
        f"{report.pairs:,} of {report.of:,} pairs, {search}: BLEU {report.bleu:.2f}, chrF {report.chrf:.2f}, "
        f"log-probability {signed(report.log_probability, 3)} per piece",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("lost without", "log-prob.", "±", "BLEU", "chrF"):
        table.add_column(name, justify="left" if name == "lost without" else "right")
    table.add_column("role")
    for head in report.ranked()[:SHOWN]:
        table.add_row(*row(head))
    console.print(table)
    rest = len(report.heads) - SHOWN
    if rest > 0:
        console.print(f"and {rest} heads that matter less", style="dim")
    roles = Counter(head.role for head in report.heads)
    console.print("roles: " + ", ".join(f"{role} {count}" for role, count in roles.most_common()), soft_wrap=True)
    console.print(footnote(report), style="dim")


def footnote(report: "HeadReport") -> str:
    if any(head.lost.bleu_p is None for head in report.heads):
        return "these are few pairs: differences in BLEU and chrF may be chance"
    by_chance = max(1, round(CHANCE * len(report.heads)))
    return f"* p ≤ {CHANCE}; of {len(report.heads)} heads, expect about {by_chance} by chance alone"


def row(head: "HeadFigures") -> list[str | Text]:
    lost = head.lost
    error = "" if lost.log_probability_error is None else f"{lost.log_probability_error:.3f}"
    scores = [
        f"{signed(value, 2)}{'*' if p is not None and p <= CHANCE else ' '}"
        for value, p in ((lost.bleu, lost.bleu_p), (lost.chrf, lost.chrf_p))
    ]
    return [str(head), signed(lost.log_probability, 3), error, *scores, told(head)]


def told(head: "HeadFigures") -> str:
    """A head's role and, if the role is weight on one place, how much of it."""
    name = {"begin and end": "ends", "aligns": "aligned"}.get(head.role, head.role)
    share = f" {head.looks[name]:.2f}" if name in head.looks else ""
    return f"{head.role}{share}{', as it reads' if head.role == 'aligns' and head.read else ''}"


def signed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")
