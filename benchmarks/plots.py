"""Plots of lines as SVG files of their own, also with logarithmic axes, which the charts of a report never have."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from math import ceil, floor, log10
from pathlib import Path

from manyheads.report.charts import Scale, round_ticks
from manyheads.report.markup import shown, shown_number

__all__ = ["Line", "draw", "write_plot"]

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 44, 48
COLOURS = ("#1f6f8b", "#c8553d", "#6a8d3a", "#8a5aa8", "#b8860b", "#555555", "#2fa4a0", "#d4738a", "#9c6b3c", "#3b4a8f")
INSIDE = 4
"""The most lines whose names have room inside the plot; the names of more lines stand below it."""
STYLE = "text{font:13px system-ui,sans-serif;fill:#444}.title{font-size:15px;font-weight:600;fill:#222}.grid{stroke:#e8e4dc}"


@dataclass(frozen=True)
class Line:
    """A line of a plot.

    dots     mark the points, because they were measured; otherwise it is a curve of many points
    labels   the names of the points, if they have any
    """

    name: str
    points: Sequence[tuple[float, float]]
    dots: bool = True
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Axis:
    """Maps values to places on the paper, linearly or by their logarithms."""

    scale: Scale
    log: bool

    def __call__(self, value: float) -> float:
        return self.scale(log10(value) if self.log else value)

    def ticks(self) -> list[float]:
        if not self.log:
            return round_ticks(self.scale.low, self.scale.high, 6)
        powers = range(floor(self.scale.low), ceil(self.scale.high) + 1)
        span = self.scale.high - self.scale.low
        steps = (1,) if span >= 3 else (1, 2, 5) if span > 0.75 else (1, 1.5, 2, 3, 4, 5, 7)
        inside = lambda v: self.scale.low - 1e-9 <= log10(v) <= self.scale.high + 1e-9  # noqa: E731
        return [step * 10.0**power for power in powers for step in steps if inside(step * 10.0**power)]


def axis(values: Sequence[float], log: bool, start: float, end: float) -> Axis:
    placed = [log10(value) for value in values] if log else list(values)
    low, high = min(placed), max(placed)
    room = 0.04 * (high - low) or 0.5
    return Axis(Scale(low - room, high + room, start, end), log)


def draw(title: str, x_name: str, y_name: str, lines: Sequence[Line], *, log: str) -> str:
    """All lines on the same axes. `log`: which axes are logarithmic, "xy", "x" or ""; these need values above 0."""
    x = axis([a for line in lines for a, _ in line.points], "x" in log, LEFT, WIDTH - RIGHT)
    y = axis([b for line in lines for _, b in line.points], "y" in log, HEIGHT - BOTTOM, TOP)
    parts = [
        *(f'<path class="grid" d="M{LEFT} {y(v)}H{WIDTH - RIGHT}"/>' for v in y.ticks()),
        *(f'<text x="{LEFT - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{shown_number(v)}</text>' for v in y.ticks()),
        *(
            f'<text x="{x(v)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{shown_number(v)}</text>'
            for v in x.ticks()
        ),
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{shown(x_name)}</text>',
        f'<text class="title" x="{LEFT}" y="20">{shown(title)}</text>',
        f'<text x="{LEFT}" y="{TOP - 6}">{shown(y_name)}</text>',
        *(drawn(*one, x, y) for one in zip(cycle(COLOURS), lines, places_of_names(lines), strict=False)),
    ]
    height = HEIGHT + (0 if len(lines) <= INSIDE else 14 + 18 * ceil(len(lines) / 2))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def places_of_names(lines: Sequence[Line]) -> list[tuple[int, int]]:
    """Where each name stands: in a list above the low end of the lines, or in two columns below the plot."""
    if len(lines) > INSIDE:
        left = (24, WIDTH // 2 + 12)
        return [(left[number % 2], HEIGHT + 18 * (1 + number // 2)) for number in range(len(lines))]
    rising = lines[0].points[0][1] <= lines[0].points[-1][1]
    return [(LEFT + 12 if rising else WIDTH - 170, TOP + 18 * (number + 1)) for number in range(len(lines))]


def drawn(colour: str, line: Line, name: tuple[int, int], x: Axis, y: Axis) -> str:
    """The line, and its entry in the list of names."""
    left, height = name
    points = [(x(a), y(b)) for a, b in line.points]
    path = "L".join(f"{a} {b}" for a, b in points)
    dots = "".join(f'<circle cx="{a}" cy="{b}" r="3.5" fill="{colour}"/>' for a, b in points if line.dots)
    labels = "".join(
        f'<text x="{a}" y="{b - 8:.1f}" text-anchor="middle" style="font-size:11px">{shown(label)}</text>'
        for (a, b), label in zip(points, line.labels, strict=bool(line.labels))
    )
    key = f'<path d="M{left} {height - 4}h18" stroke="{colour}" stroke-width="2.5"/>'
    return (
        f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>{dots}{labels}{key}'
        f'<text x="{left + 24}" y="{height}">{shown(line.name)}</text>'
    )


def write_plot(path: Path, svg: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg)
