"""Curves over the steps of a run, as SVG: axes with round numbers, at most 500 points per curve, values on hover."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from manyheads.errors import how_many
from manyheads.report.markup import note, shown, shown_number

__all__ = ["Curve", "draw_chart", "round_ticks", "thin"]

Point = tuple[int, float]

WIDTH, HEIGHT = 560, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 42
MOST_POINTS = 500
MOST_DOTS = 40
MOST_BANDS = 80
COLOURS = 4


@dataclass(frozen=True)
class Curve:
    """Points (step, value) in order of step; `lost` counts values that were not finite numbers."""

    name: str
    points: list[Point]
    lost: int = 0


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` onto the paper from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)


def draw_chart(title: str, curves: Sequence[Curve], *, from_zero: bool = False, best: int | None = None) -> str:
    """A figure of all curves on the same axes; empty if there is nothing to draw. `best` is a step to mark."""
    lost = sum(curve.lost for curve in curves)
    curves = [curve for curve in curves if curve.points][:COLOURS]
    said = note(f"Left out: {how_many(lost, 'non-finite value')}.") if lost else ""
    if not curves:
        return f"<figure><figcaption><b>{shown(title)}</b></figcaption>{said}</figure>" if said else ""
    x, y = scales(curves, from_zero)
    parts = [*axes(x, y), *mark(best, x), *(line(n, curve, x, y) for n, curve in enumerate(curves)), *bands(curves, x)]
    return (
        f"<figure><figcaption><b>{shown(title)}</b>{legend(curves)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{shown(title)}">{"".join(parts)}</svg>'
        f"{said}</figure>"
    )


def legend(curves: Sequence[Curve]) -> str:
    """The colour, name and last value of each curve."""
    return "".join(
        f'<i class="c{n}">{shown(curve.name)} {shown_number(curve.points[-1][1])}</i>' for n, curve in enumerate(curves)
    )


# ── axes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def scales(curves: Sequence[Curve], from_zero: bool) -> tuple[Scale, Scale]:
    steps = [step for curve in curves for step, _ in curve.points]
    values = [value for curve in curves for _, value in curve.points] + [0.0] * from_zero
    bottom, top = widened(min(values), max(values))
    ticks = round_ticks(bottom, top, 5)
    distance = ticks[1] - ticks[0]
    # The highest line of the grid is above the highest value, the lowest below the lowest.
    bottom, top = floor(bottom / distance + 1e-6) * distance, ceil(top / distance - 1e-6) * distance
    return (
        Scale(*widened(min(0, *steps), max(steps)), LEFT, WIDTH - RIGHT),
        Scale(bottom, top, HEIGHT - BOTTOM, TOP),
    )


def widened(low: float, high: float) -> tuple[float, float]:
    """A range that is not empty, so that one point and a flat line can be drawn too."""
    if high - low > 1e-9 * max(abs(low), abs(high), 1e-60):
        return low, high
    room = abs(high) / 10 or 1.0
    return low - room, high + room


def round_ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers between two values, both inclusive: 1, 2 or 5 times a power of ten apart."""
    power = 10.0 ** floor(log10((high - low) / about))
    distance = next(m * power for m in (1, 2, 5, 10, 20) if (high - low) / (m * power) <= about)
    first, last = ceil(low / distance - 1e-6), floor(high / distance + 1e-6)
    return [n * distance for n in range(first, last + 1)]


def axes(x: Scale, y: Scale) -> list[str]:
    base = HEIGHT - BOTTOM
    lines = [f'<path class="grid" d="M{LEFT} {y(v)}H{WIDTH - RIGHT}"/>' for v in round_ticks(y.low, y.high, 6)]
    values = [
        f'<text x="{LEFT - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{shown_number(v)}</text>'
        for v in round_ticks(y.low, y.high, 6)
    ]
    steps = [
        f'<text x="{x(v)}" y="{base + 18}" text-anchor="middle">{shown_number(v)}</text>'
        for v in round_ticks(x.low, x.high, 6)
        if v >= 0
    ]
    name = f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">steps</text>'
    return [*lines, f'<path class="axis" d="M{LEFT} {base}H{WIDTH - RIGHT}"/>', *values, *steps, name]


# ── curves ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def line(number: int, curve: Curve, x: Scale, y: Scale) -> str:
    points = [(x(step), y(value)) for step, value in thin(curve.points)]
    path = "L".join(f"{a} {b}" for a, b in points)
    few = points if len(points) <= MOST_DOTS else []
    dots = "".join(f'<circle class="dot c{number}" cx="{a}" cy="{b}" r="3.5"/>' for a, b in few)
    return f'<path class="curve c{number}" d="M{path}"/>{dots}'


def thin(points: list[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points: of each stretch the lowest and the highest stay, so that spikes remain visible."""
    if len(points) <= most:
        return points
    size = ceil(len(points) / (most // 2))
    kept: list[Point] = []
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        ends = {min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}
        kept += sorted(ends)
    return kept


def mark(best: int | None, x: Scale) -> list[str]:
    if best is None or not x.low <= best <= x.high:
        return []
    return [f'<path class="best" d="M{x(best)} {TOP}V{HEIGHT - BOTTOM}"/>']


def bands(curves: Sequence[Curve], x: Scale) -> list[str]:
    """Invisible stripes over the full height, each with the values there as a tooltip."""
    steps = sorted({step for curve in curves for step, _ in curve.points})
    size = ceil(len(steps) / MOST_BANDS)
    ends = steps[size - 1 :: size]
    ends = ends if ends and ends[-1] == steps[-1] else [*ends, steps[-1]]
    stripes, before, left = [], -1, x(x.low)
    for end in ends:
        title = "\n".join(shown(said) for curve in curves if (said := latest(curve, before, end)))
        right = x(end)
        width = max(1.0, right - left)
        stripes.append(
            f'<rect class="band" x="{left}" y="{TOP}" width="{width:.1f}" height="{HEIGHT - BOTTOM - TOP}">'
            f"<title>{title}</title></rect>"
        )
        before, left = end, right
    return stripes


def latest(curve: Curve, after: int, until: int) -> str:
    """The last value of a curve between two steps, as text."""
    within = [point for point in curve.points if after < point[0] <= until]
    return f"{curve.name} {shown_number(within[-1][1])} at step {within[-1][0]:,}" if within else ""
