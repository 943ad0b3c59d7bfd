"""The picture of a report on heads: boards of layers by heads, with the BLEU lost without each head and its role.

Blue heads help, orange ones hurt. Numbers that are unlikely to be chance (p of at most 0.05) are bold.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.inspection.figure import INK, PAPER, SOFT, frame
from manyheads.inspection.headreport import HeadFigures, HeadReport
from manyheads.inspection.trace import KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_report"]

AGAINST, HELPS = "#b4552d", "#1f5f8b"
CHANCE = 0.05
WIDE, HIGH = 1.02, 0.5
"""Inches per cell."""
SHORT = {"begin and end": "ends", "no single role": ""}


def draw_report(figure: "Figure", report: HeadReport) -> None:
    boards = {kind: [head for head in report.heads if head.kind == kind] for kind in KINDS}
    across = [max(head.head for head in heads) + 1 for heads in boards.values()]
    deepest = max(head.layer for head in report.heads) + 1
    figure.set_size_inches(1 + WIDE * sum(across), 1.7 + HIGH * deepest)
    most = max(0.1, *(abs(head.lost.bleu) for head in report.heads))
    grid = figure.subplots(1, len(KINDS), squeeze=False, width_ratios=across)[0]
    for axes, (kind, heads) in zip(grid, boards.items(), strict=True):
        draw_board(axes, kind, heads, most, deepest)
    figure.suptitle("BLEU lost without each head, and its role", fontsize=12, color=INK)
    figure.supxlabel(caption(report), fontsize=8, color=SOFT)


def draw_board(axes: "Axes", kind: str, heads: list[HeadFigures], most: float, deepest: int) -> None:
    layers, across = (max(getattr(head, side) for head in heads) + 1 for side in ("layer", "head"))
    lost = np.zeros((layers, across))
    for head in heads:
        lost[head.layer, head.head] = head.lost.bleu
    shades = np.sign(lost) * np.sqrt(np.abs(lost) / most)
    axes.imshow(shades, cmap=signed_ramp(), vmin=-1.35, vmax=1.35, aspect="auto", clip_on=False)
    frame(axes, kind)
    axes.set(ylim=(deepest - 0.5, -0.5), facecolor=PAPER)
    axes.set_xticks(range(across), [f"head {n}" for n in range(across)])
    axes.set_yticks(range(layers), [str(n) for n in range(layers)])
    for spine in axes.spines.values():
        spine.set_visible(False)
    for head in heads:
        draw_cell(axes, head)


def draw_cell(axes: "Axes", head: HeadFigures) -> None:
    weight = "bold" if head.lost.bleu_p is not None and head.lost.bleu_p <= CHANCE else "normal"
    place = {"ha": "center", "va": "center"}
    number = f"{head.lost.bleu:+.2f}".replace("-", "−")
    role = SHORT.get(head.role, head.role)
    axes.text(head.head, head.layer - (0.16 if role else 0), number, fontsize=9, color=INK, weight=weight, **place)
    axes.text(head.head, head.layer + 0.24, role, fontsize=7, color=INK, style="italic", **place)


def caption(report: HeadReport) -> str:
    search = "greedy search" if report.search["beam"] == 1 else f"beam {report.search['beam']:g}"
    name = f"{report.model}: " if report.model else ""
    return (
        f"{name}{report.pairs:,} of {report.of:,} pairs, {search}, BLEU {report.bleu:.2f} with all heads. Rows are layers. "
        f"Bold: p ≤ {CHANCE}.\nA role is where a head puts at least {report.share:g} of its weight; spread: entropy of at least "
        f"{report.spread:g} of the largest; blank: neither."
    )


def signed_ramp() -> Any:
    """The colours from heads that hurt, over near-paper for 0, to heads that help."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("lost", [AGAINST, "#f3f0ea", HELPS])
