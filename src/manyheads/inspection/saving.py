"""Saving an inspection as a page, a picture or numbers, depending on the suffix of the file name."""

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from manyheads.errors import OptionError
from manyheads.inspection.attribution import CHEAP, attribute, methods_of
from manyheads.inspection.bundle import Bundle, make_bundle
from manyheads.inspection.figure import Picture, drawn
from manyheads.inspection.headpicture import draw_report
from manyheads.inspection.headreport import HeadReport
from manyheads.inspection.importance import ranked
from manyheads.inspection.inspected import Inspected, Written
from manyheads.inspection.picture import picture as draw
from manyheads.inspection.singlefile import single_file
from manyheads.inspection.switches import every_head
from manyheads.storage import replace_file

__all__ = ["save", "save_report"]

MOST_HEADS, MOST_PIECES = 100, 64
"""Above these sizes a page does not rank heads. Ranking takes a pass per head: one to two seconds in all for the
bundled model on one core, and ten times that for 144 heads of twice the width, which nobody has asked for."""


def save(inspection: Inspected, path: Path, **how: Any) -> Path:
    """Save in the format that the suffix names; warn of letters that a PNG cannot show.

    `how` holds view, kind, layer, … for SVG and PNG, and attribution for a page.
    """
    form = path.suffix.lower().removeprefix(".")
    ways: dict[str, Callable[[], Picture]] = {
        "html": lambda: Picture(single_file(page_of(inspection, **how)), 0),
        "json": lambda: Picture(as_numbers(inspection), 0),
        "svg": lambda: draw(inspection, "svg", **how),
        "png": lambda: draw(inspection, "png", **how),
    }
    if form not in ways:
        raise OptionError(f"an inspection must be saved as .{', .'.join(ways)}, got {str(path)!r}")
    return put(path, ways[form]())


def save_report(report: HeadReport, path: Path) -> Path:
    """Save a report on heads by itself. (A page also shows a sentence.)"""
    form = path.suffix.lower().removeprefix(".")
    if form not in ("svg", "png", "json"):
        raise OptionError(f"a report on heads must be saved as .svg, .png, .json, got {str(path)!r}")
    if form == "json":
        return put(path, Picture((json.dumps(report.as_json(), ensure_ascii=False) + "\n").encode(), 0))
    return put(path, drawn(form, lambda figure: draw_report(figure, report)))


def put(path: Path, made: Picture) -> Path:
    replace_file(path, made.content)
    if made.missing:
        warnings.warn(
            f"{made.missing} letters are missing from all installed fonts and drawn as boxes in {path}; an SVG keeps them as text",
            stacklevel=4,
        )
    return path


def page_of(inspection: Inspected, attribution: Sequence[str] = ()) -> Bundle:
    """The bundle of a single-file page: what is cheap, and what `attribution` names. It cannot ask for more later."""
    bundle, more = make_bundle(inspection), dict[str, Any]()
    heads = len(every_head(inspection.model))
    short = max(len(side.pieces) for side in inspection.sides.values()) <= MOST_PIECES
    if short and heads <= MOST_HEADS and isinstance(inspection, Written):
        more["importance"] = ranked(inspection)
    cheap = [method for method in CHEAP if short and method in methods_of(inspection)]
    methods = dict.fromkeys((*cheap, *attribution))
    more["attribution"] = {method: attribute(inspection, method).as_json() for method in methods}
    return Bundle(bundle.header | more, bundle.planes)


def as_numbers(inspection: Inspected) -> bytes:
    return (json.dumps(inspection.as_json(), ensure_ascii=False) + "\n").encode()
