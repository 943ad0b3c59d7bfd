"""Pictures for papers and slides, SVG or PNG, without a browser: one matrix, a map of every head, or lines between words.

In SVG the words are text, not outlines. A shade grows with the square root of a weight, so that small ones can be seen.
"""

import io
import textwrap
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manyheads.errors import OptionError, choose
from manyheads.inspection.api import Inspection
from manyheads.inspection.plane import NAMES, Plane, choose_plane
from manyheads.inspection.trace import KINDS
from manyheads.report.markup import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PICTURES", "Picture", "picture"]

PAPER, INK, SOFT, HEAT = "#fdfcfa", "#23211e", "#6f6a62", "#104e78"
FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Devanagari", "Arial Unicode MS"]
"""Letters are taken from the first that is installed and has them; DejaVu comes with matplotlib."""
CELL = 0.42
"""Inches."""
MOST_LABELS = 80
ROOM_FOR_NUMBERS = 24
"""Rows and columns up to which a cell has room for a number."""
FAINTEST = 0.02
"""Weights below this are no line."""


class Picture(NamedTuple):
    """`missing` counts letters that no font here has: in a PNG they are boxes."""

    content: bytes
    missing: int


def picture(inspection: Inspection, form: str, view: str = "matrix", **place: Any) -> Picture:
    """`form` is "svg" or "png"; `place` says which plane, as for `choose_plane`; a map has them all."""
    draw = choose("view", view, PICTURES)
    mpl = load_matplotlib()
    style = {"svg.fonttype": "none", "svg.hashsalt": "manyheads", "font.family": fonts(), "text.parse_math": False}
    with mpl.rc_context(style), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        figure = mpl.figure.Figure(layout="constrained", facecolor=PAPER)
        draw(figure, inspection, **place)
        texts = (textwrap.fill(visible(text), 90) for text in (inspection.source.text, inspection.translation))
        figure.suptitle("\n".join(texts), fontsize=11, color=INK)
        content = io.BytesIO()
        stamps = {"Date": None} if form == "svg" else {}
        figure.savefig(content, format=form, dpi=200, facecolor=PAPER, metadata=stamps)
    missing = {str(one.message) for one in said if "missing from" in str(one.message)}
    return Picture(content.getvalue(), len(missing) if form == "png" else 0)


def load_matplotlib() -> Any:
    """Its figures are used on their own: nothing global is touched, no window opened."""
    try:
        import matplotlib as mpl
        import matplotlib.figure
        import matplotlib.font_manager
    except ImportError:
        raise OptionError(
            "pictures need matplotlib, which is not installed", hint="pip install 'manyheads[inspect]'"
        ) from None
    return mpl


def fonts() -> list[str]:
    installed = set(load_matplotlib().font_manager.get_font_names())
    return [name for name in FONTS if name in installed]


def draw_matrix(figure: "Figure", inspection: Inspection, **place: Any) -> None:
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


def number_cells(axes: "Axes", plane: Plane) -> None:
    for (row, column), weight in np.ndenumerate(plane.weights):
        if weight >= 0.01:
            ink = PAPER if weight > 0.3 else INK
            axes.text(column, row, f"{weight:.2f}".removeprefix("0"), ha="center", va="center", fontsize=7, color=ink)


def draw_map(figure: "Figure", inspection: Inspection, pieces: bool = False) -> None:
    """Every head of every layer, a thumbnail each: heads from left to right, layers downwards."""
    heads, deepest = len(inspection.attention["cross"][0]), max(map(len, inspection.attention.values()))
    figure.set_size_inches(1.5 + 0.9 * heads * len(KINDS), 1.2 + 0.9 * deepest)
    parts = figure.subfigures(1, len(KINDS), squeeze=False)
    for kind, part in zip(KINDS, parts[0], strict=True):
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


def draw_thumbnail(axes: "Axes", plane: Plane) -> None:
    show(axes, plane, "auto")
    if plane.head == 0:
        axes.set_ylabel(str(plane.layer), fontsize=8, color=SOFT, rotation=0, ha="right", va="center")
    if plane.layer == 0:
        axes.set_title(f"head {plane.head}", fontsize=8, color=SOFT)


def draw_lines(figure: "Figure", inspection: Inspection, **place: Any) -> None:
    """What is looked at on the left, what looks on the right, a line for each weight that matters."""
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


def show(axes: "Axes", plane: Plane, aspect: Any) -> None:
    """Unclipped: the names of clips hang on the last digits of a layout, and the same weights are to give the same bytes."""
    axes.imshow(np.sqrt(plane.weights), cmap=ramp(), vmin=0, vmax=1, aspect=aspect, clip_on=False)


def frame(axes: "Axes", title: str) -> None:
    axes.set_title(title, fontsize=9, color=SOFT)
    axes.tick_params(length=0, labelsize=9, colors=INK, top=True, labeltop=True, bottom=False, labelbottom=False)
    for spine in axes.spines.values():
        spine.set(color="#e4dfd6")


def ramp() -> Any:
    """From paper, which is 0, to the darkest, which is 1."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attention", [PAPER, "#8db8d0", HEAT])


PICTURES: dict[str, Callable[..., None]] = {"matrix": draw_matrix, "map": draw_map, "lines": draw_lines}
