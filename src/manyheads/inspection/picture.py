"""Pictures for papers and slides, SVG or PNG, without a browser.

They show one matrix, a map of every head, lines between words, what is lost without each head, or how a model that
writes all at once arrived at its text. Shades grow with the square root of a weight, so that small ones can be seen.
"""

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.errors import OptionError, choose
from manyheads.inspection.figure import INK, PAPER, SOFT, Picture, drawn, frame
from manyheads.inspection.headpicture import draw_report
from manyheads.inspection.inspected import Inspected
from manyheads.inspection.iterationpicture import draw_at_once
from manyheads.inspection.plane import NAMES, Plane, choose_plane
from manyheads.inspection.translated import Inspection
from manyheads.report.markup import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PICTURES", "picture"]

HEAT = "#104e78"
CELL = 0.42
"""Inches per cell."""
MOST_LABELS = 80
ROOM_FOR_NUMBERS = 24
"""Most rows and columns with which a cell has room for a number."""
FAINTEST = 0.02
"""Weights below this get no line."""


def picture(inspection: Inspected, form: str, view: str = "matrix", **place: Any) -> Picture:
    """Draw one view as "svg" or "png". `place` chooses the plane, as in `choose_plane`; a map shows them all."""
    draw = choose("view", view, PICTURES)
    return drawn(form, lambda figure: draw(figure, inspection, **place))


def entitle(figure: "Figure", inspection: Inspected) -> None:
    texts = (textwrap.fill(visible(text), 90) for text in inspection.texts)
    figure.suptitle("\n".join(texts), fontsize=11, color=INK)


def draw_matrix(figure: "Figure", inspection: Inspected, **place: Any) -> None:
    plane = choose_plane(inspection, **place)
    height, width = plane.weights.shape
    figure.set_size_inches(max(4, 1.8 + CELL * width), max(3, 1.8 + CELL * height))
    axes = figure.subplots()
    show(axes, plane, "equal")
    frame(axes, plane.title)
    if max(height, width) <= MOST_LABELS:
        axes.set_xticks(range(width), plane.columns, rotation=55, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(height), plane.rows)
    if max(height, width) <= ROOM_FOR_NUMBERS:
        number_cells(axes, plane)
    entitle(figure, inspection)


def number_cells(axes: "Axes", plane: Plane) -> None:
    for (row, column), weight in np.ndenumerate(plane.weights):
        if weight >= 0.01:
            ink = PAPER if weight > 0.3 else INK
            axes.text(column, row, f"{weight:.2f}".removeprefix("0"), ha="center", va="center", fontsize=7, color=ink)


def draw_map(figure: "Figure", inspection: Inspected, pieces: bool = False) -> None:
    """A thumbnail for every head: heads from left to right, layers from top to bottom."""
    kinds = inspection.attention
    heads, deepest = inspection.model.config.heads, max(map(len, kinds.values()))
    figure.set_size_inches(1.5 + 0.9 * heads * len(kinds), 1.2 + 0.9 * deepest)
    parts = figure.subfigures(1, len(kinds), squeeze=False)
    for kind, part in zip(kinds, parts[0], strict=True):
        part.set_facecolor(PAPER)
        part.suptitle(NAMES[kind], fontsize=10, color=SOFT)
        grid = part.subplots(deepest, heads, squeeze=False)
        for (layer, head), axes in np.ndenumerate(grid):
            frame(axes, "")
            axes.set(xticks=[], yticks=[])
            if layer < len(inspection.attention[kind]):
                draw_thumbnail(axes, choose_plane(inspection, kind, layer, head, pieces=pieces))
            else:
                axes.axis("off")
    entitle(figure, inspection)


def draw_thumbnail(axes: "Axes", plane: Plane) -> None:
    show(axes, plane, "auto")
    if plane.head == 0:
        axes.set_ylabel(str(plane.layer), fontsize=8, color=SOFT, rotation=0, ha="right", va="center")
    if plane.layer == 0:
        axes.set_title(f"head {plane.head}", fontsize=8, color=SOFT)


def draw_lines(figure: "Figure", inspection: Inspected, **place: Any) -> None:
    """Keys on the left, queries on the right, and a line for each weight of at least FAINTEST."""
    plane = choose_plane(inspection, **place)
    rows, columns = plane.weights.shape
    figure.set_size_inches(6, max(3, 1.2 + 0.3 * max(rows, columns)))
    axes = figure.subplots()
    left, right = (np.linspace(0, 1, n + 2)[1:-1] for n in (columns, rows))
    for (row, column), weight in np.ndenumerate(plane.weights):
        if weight >= FAINTEST:
            axes.plot([0, 1], [left[column], right[row]], color=HEAT, alpha=min(1, weight), lw=0.6 + 2.4 * weight)
    for side, names, places in (("right", plane.columns, left), ("left", plane.rows, right)):
        for name, at in zip(names, places, strict=True):
            axes.text(-0.03 if side == "right" else 1.03, at, name, ha=side, va="center", fontsize=9, color=INK)
    axes.set(xlim=(-0.7, 1.7), ylim=(1, 0))
    axes.axis("off")
    axes.set_title(plane.title, fontsize=9, color=SOFT)
    entitle(figure, inspection)


def draw_heads(figure: "Figure", inspection: Inspected) -> None:
    """Draw the report on heads, which covers a test set instead of this sentence."""
    if not isinstance(inspection, Inspection) or inspection.report is None:
        raise OptionError(
            "the heads view needs a report on heads, got none", hint="--data DEV.tsv, report_heads(model, pairs)"
        )
    draw_report(figure, inspection.report)


def show(axes: "Axes", plane: Plane, aspect: Any) -> None:
    """Unclipped: names of clip paths depend on the layout's last digits, and equal weights must give equal bytes."""
    axes.imshow(np.sqrt(plane.weights), cmap=ramp(), vmin=0, vmax=1, aspect=aspect, clip_on=False)


def ramp() -> Any:
    """The colours from paper, for 0, to the darkest, for 1."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attention", [PAPER, "#8db8d0", HEAT])


PICTURES: dict[str, Callable[..., None]] = {
    "matrix": draw_matrix,
    "map": draw_map,
    "lines": draw_lines,
    "heads": draw_heads,
    "iterations": lambda figure, inspection: draw_at_once(figure, inspection, ramp()),
}
