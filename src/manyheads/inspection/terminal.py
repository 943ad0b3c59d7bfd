"""Where a model looks, in a terminal: a heat map, with the strongest keys beside each row."""

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from manyheads.inspection.plane import Plane

__all__ = ["draw_plane"]

SHADES = " ░▒▓█"
"""Used in terminals without colours."""
LIGHT, DARK = (252, 251, 247), (16, 78, 120)
LONGEST_ROW, LONGEST_COLUMN = 18, 10
BESIDE = 3
"""Keys named beside a row."""


def draw_plane(console: Console, plane: Plane) -> None:
    """Print the columns that fit, each two characters wide, under its name written downwards."""
    left = min(LONGEST_ROW, max(map(cell_len, plane.rows)))
    room = max(1, (console.width - left - 2 - 30) // 2)
    shown = plane.columns[:room]
    console.print(Text(plane.title, style="bold"))
    for line in downwards(shown):
        console.print(Text(" " * (left + 2) + line, style="dim"), no_wrap=True, crop=True)
    colours = console.color_system is not None and not console.no_color
    for name, row in zip(plane.rows, plane.weights, strict=True):
        line = Text(f"{set_cell_size(name, left)}  ")
        for weight in row[: len(shown)]:
            line.append(
                "  " if colours else SHADES[shade(weight)] * 2, Style(bgcolor=colour(weight)) if colours else ""
            )
        line.append(f"  {strongest(plane.columns, row)}")
        console.print(line, no_wrap=True, crop=True)
    if len(shown) < len(plane.columns):
        console.print(f"{len(plane.columns) - len(shown)} more columns do not fit", style="dim")


def downwards(names: list[str]) -> list[str]:
    """The names of columns, written downwards: one letter per line, the last letters on the lowest line."""
    cut = [name if len(name) <= LONGEST_COLUMN else f"{name[: LONGEST_COLUMN - 1]}…" for name in names]
    height = max(map(len, cut))
    return ["".join(set_cell_size(name.rjust(height)[line], 2) for name in cut) for line in range(height)]


def strongest(columns: list[str], row: np.ndarray) -> str:
    order = np.argsort(-row, kind="stable")[:BESIDE]
    return "  ".join(f"{columns[n]} {row[n]:.2f}" for n in order if row[n] >= 0.005)


def shade(weight: float) -> int:
    """By the square root: with thirty keys, uniform attention gives each 0.03, too faint to see on a linear scale."""
    return round(min(1.0, max(0.0, weight)) ** 0.5 * (len(SHADES) - 1))


def colour(weight: float) -> str:
    share = min(1.0, max(0.0, weight)) ** 0.5
    mixed = (round(light + (dark - light) * share) for light, dark in zip(LIGHT, DARK, strict=True))
    return f"rgb({','.join(map(str, mixed))})"
