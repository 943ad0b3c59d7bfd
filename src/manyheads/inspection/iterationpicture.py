"""How a model that writes all at once arrived at its text, as a picture: a grid of iterations and places, or a graph.

A cell is darker the surer the model was of its word when it wrote it. Words written in an iteration are framed, and
bold if they differ from what stood there before; words that were kept are faint.
"""

import textwrap
from collections.abc import Iterator, Sequence
from math import exp
from typing import TYPE_CHECKING, Any, NamedTuple

from manyheads.errors import OptionError
from manyheads.inspection.atonce import WrittenAtOnce
from manyheads.inspection.figure import INK, PAPER, SOFT
from manyheads.inspection.inspected import Inspected
from manyheads.inspection.iterationlines import minus
from manyheads.inspection.iterations import Attempt, Iteration
from manyheads.inspection.plane import label
from manyheads.inspection.vertices import ReadGraph
from manyheads.report.markup import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_at_once"]

MARK, LINK = "#c8553d", "#1f5f8b"
ROW, MARGIN = 0.34, 0.25
"""Inches: the height of a row, and the margin around the picture."""
TITLE, SMALL = (0.24, 0.092), (0.17, 0.064)
"""Inches: the height of a line and the width of a letter, in the title and in the small lines below it."""
NUMBERS = 0.9
"""Inches for the names of rows."""
WIDEST = 13.0
LETTER, PADDING, NARROWEST, LONGEST_WORD = 0.088, 0.16, 0.36, 16
DARK = 0.62
"""On shades above this, text has the colour of paper."""


def draw_at_once(figure: "Figure", inspection: Inspected, ramp: Any) -> None:
    if not isinstance(inspection, WrittenAtOnce):
        raise OptionError(
            "the iterations view needs a model that writes all tokens at once, got one that does not",
            hint="--view matrix",
        )
    if inspection.graph is None:
        draw_grid(figure, inspection, inspection.taken, ramp)
    else:
        draw_graph(figure, inspection, inspection.graph, ramp)


def canvas(figure: "Figure", width: float, height: float) -> "Axes":
    """Axes over the complete figure, in inches from the left and from the top."""
    figure.set_layout_engine("none")
    figure.set_size_inches(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return axes


def name_of(text: str) -> str:
    short = label(text).lstrip("␣") or "␣"
    return short if len(short) <= LONGEST_WORD else f"{short[: LONGEST_WORD - 1]}…"


def wrapped(text: str, width: float, letter: float) -> list[str]:
    return textwrap.wrap(text, max(20, int((width - 2 * MARGIN) / letter)))


def headlines(found: WrittenAtOnce, told: str, width: float) -> tuple[list[str], list[str], float]:
    """The lines of the title, the small lines below it, and the height that both take."""
    source, target = (visible(text) for text in (found.source.text, found.translation))
    title, small = wrapped(f"{source} → {target}", width, TITLE[1]), wrapped(told, width, SMALL[1])
    return title, small, MARGIN + TITLE[0] * len(title) + SMALL[0] * len(small) + 0.08


def entitle(axes: "Axes", title: Sequence[str], small: Sequence[str]) -> None:
    y = MARGIN
    for line in title:
        axes.text(MARGIN, y, line, fontsize=11, color=INK, va="center")
        y += TITLE[0]
    for line in small:
        axes.text(MARGIN, y, line, fontsize=8, color=SOFT, va="center")
        y += SMALL[0]


# ── places ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def draw_grid(figure: "Figure", found: WrittenAtOnce, attempt: Attempt, ramp: Any) -> None:
    widths = [width_of(attempt.iterations, place) for place in range(attempt.length)]
    parts, rows = list(blocks(widths)), len(attempt.iterations)
    width = max(6.5, 2 * MARGIN + NUMBERS + max(sum(widths[a:b]) for a, b in parts))
    title, small, top = headlines(found, told_of(found, attempt), width)
    axes = canvas(figure, width, top + len(parts) * (rows * ROW + 0.2) - 0.2 + MARGIN)
    entitle(axes, title, small)
    for start, stop in parts:
        for n, one in enumerate(attempt.iterations):
            x, y = MARGIN + NUMBERS, top + n * ROW
            name = f"{n + 1}" if start else f"iteration {n + 1}"
            axes.text(MARGIN, y + ROW / 2, name, fontsize=8, color=SOFT, va="center")
            for place in range(start, stop):
                draw_cell(axes, one, place, (x, y), widths[place], ramp)
                x += widths[place]
        top += rows * ROW + 0.2


def told_of(found: WrittenAtOnce, attempt: Attempt) -> str:
    others = [f"{one.length} ({minus(one.score)})" for one in found.tries if not one.taken]
    tried = f"; also tried, with their scores: {', '.join(others)}" if others else ""
    return (
        f"{attempt.length} places, score {minus(attempt.score)}{tried}. Darker: likelier. Framed: masked before, "
        "written in this iteration. Red: changed."
    )


def width_of(iterations: Sequence[Iteration], place: int) -> float:
    return max(NARROWEST, PADDING + LETTER * max(len(name_of(one.pieces[place])) for one in iterations))


def blocks(widths: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of the places that stand side by side."""
    start, used = 0, 0.0
    for n, width in enumerate(widths):
        if used + width > WIDEST - NUMBERS - 2 * MARGIN and n > start:
            yield start, n
            start, used = n, 0.0
        used += width
    yield start, len(widths)


def draw_cell(axes: "Axes", one: Iteration, place: int, at: tuple[float, float], width: float, ramp: Any) -> None:
    """Unclipped, as all pictures are."""
    from matplotlib.patches import FancyBboxPatch

    (x, y), sure, written = at, exp(one.log_probability[place]), one.written[place]
    gone = one.cut is not None and place > one.cut
    gap = 0.025
    box = FancyBboxPatch(
        (x + gap, y + gap), width - 2 * gap, ROW - 2 * gap, boxstyle="round,pad=0,rounding_size=0.05",
        facecolor=ramp(0.85 * sure) if written else ramp(0.16 * sure), alpha=0.35 if gone else 1,
        edgecolor=(MARK if one.changed[place] else INK) if written else "none", linewidth=(1.5 if one.changed[place] else 0.8) if written else 0, clip_on=False,
    )  # fmt: skip
    axes.add_patch(box)
    ink = SOFT if gone or not written else PAPER if 0.85 * sure > DARK else INK
    weight = "bold" if one.changed[place] else "normal"
    axes.text(x + width / 2, y + ROW / 2, name_of(one.pieces[place]), fontsize=9, color=ink, weight=weight, ha="center", va="center_baseline")  # fmt: skip


# ── a graph ─────────────────────────────────────────────────────────────────────────────────────────────────────────

FAINTEST = 0.05
"""Links of lower probability are not drawn, except those of the path."""


def draw_graph(figure: "Figure", found: WrittenAtOnce, graph: ReadGraph, ramp: Any) -> None:
    """Vertices from left to right: those of the path with their words, others as dots with small words below."""
    path, last = set(graph.path), len(graph.vertices) - 1
    on_way = path | {0, last}
    widths = [room_of(found, n) if n in on_way else 0.18 for n in range(last + 1)]
    centres = [MARGIN + sum(widths[:n]) + width / 2 for n, width in enumerate(widths)]
    width = max(5.5, centres[-1] + widths[-1] / 2 + MARGIN)
    centres = [x + (width - centres[-1] - widths[-1] / 2 - MARGIN) / 2 for x in centres]  # centred
    taken = set(graph.steps)
    arcs = [
        Arc((centres[n], centres[link.to]), exp(link.log_probability), (n, link.to) in taken)
        for n, vertex in enumerate(graph.vertices)
        for link in vertex.links
        if exp(link.log_probability) >= FAINTEST or (n, link.to) in taken
    ]
    highest = 0.75 * max(arc.rise for arc in arcs)
    best = next(one for one in graph.lengths if one.length == len(graph.path))
    told = f"{last + 1} vertices, a path through {len(graph.path)}: log P {minus(best.log_probability)}, score {minus(best.score)}. The path is red."
    title, small, top = headlines(found, told, width)
    y = top + highest + 0.25
    axes = canvas(figure, width, y + 1.05)
    entitle(axes, title, small)
    for arc in arcs:
        draw_arc(axes, arc, y - 0.15)
    for n, (vertex, x) in enumerate(zip(graph.vertices, centres, strict=True)):
        draw_vertex(axes, found, n, (x, y), n in path, vertex.id is None, ramp)


class Arc(NamedTuple):
    """A link: where it starts and ends, how likely it is, and whether the path takes it."""

    ends: tuple[float, float]
    share: float
    taken: bool

    @property
    def rise(self) -> float:
        return min(2.6, 0.16 + 0.34 * (self.ends[1] - self.ends[0]))


def draw_arc(axes: "Axes", arc: Arc, foot: float) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    (a, b), top = arc.ends, foot - arc.rise
    axes.add_patch(
        PathPatch(Path([(a, foot), (a, top), (b, top), (b, foot)], [1, 4, 4, 4]), facecolor="none", edgecolor=MARK if arc.taken else LINK,
                  alpha=0.95 if arc.taken else 0.12 + 0.5 * arc.share, linewidth=1.8 if arc.taken else 0.5 + 1.5 * arc.share, clip_on=False,
                  zorder=2 if arc.taken else 1)
    )  # fmt: skip


def draw_vertex(
    axes: "Axes", found: WrittenAtOnce, n: int, at: tuple[float, float], ours: bool, silent: bool, ramp: Any
) -> None:
    from matplotlib.patches import FancyBboxPatch

    (x, y), vertex = at, found.graph.vertices[n]  # type: ignore[union-attr]
    text = name_of(vertex.text)
    if silent:
        axes.text(x, y, text, fontsize=8, color=SOFT, ha="center", va="center")
        return
    sure = exp(vertex.log_probability or 0.0)
    if not ours:
        axes.plot([x], [y], "o", markersize=4, color=ramp(0.25 + 0.6 * sure), clip_on=False)
        axes.text(
            x, y + 0.12, text, fontsize=6, color=SOFT, rotation=60, rotation_mode="anchor", ha="right", va="center"
        )
        return
    width = 0.2 + LETTER * len(text)
    axes.add_patch(
        FancyBboxPatch((x - width / 2, y - 0.14), width, 0.28, boxstyle="round,pad=0,rounding_size=0.06",
                       facecolor=ramp(0.85 * sure), edgecolor=MARK, linewidth=1.2, clip_on=False, zorder=3)
    )  # fmt: skip
    ink = PAPER if 0.85 * sure > DARK else INK
    axes.text(x, y, text, fontsize=10, color=ink, ha="center", va="center_baseline", zorder=4)
    for line, told in enumerate(said_instead(found, n)):
        axes.text(x, y + 0.28 + 0.15 * line, told, fontsize=6.5, color=SOFT if line else INK, ha="center", va="center")


def said_instead(found: WrittenAtOnce, n: int) -> list[str]:
    """How sure a vertex is of its word, and what else it could have said."""
    own, *others = (one for one in found.choices[n].candidates[:4])
    return [
        f"{exp(own.log_probability):.2f}",
        *(f"{name_of(one.text)} {exp(one.log_probability):.2f}" for one in others),
    ]


def room_of(found: WrittenAtOnce, n: int) -> float:
    """The width of a vertex of the path, with room for its word and for the lines below."""
    longest = max(map(len, said_instead(found, n)))
    return max(0.34 + LETTER * len(name_of(found.graph.vertices[n].text)), 0.12 + 0.062 * longest)  # type: ignore[union-attr]
