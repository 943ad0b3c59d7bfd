"""An inspection as a file: a page, a picture, or numbers. The name says which."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manyheads.errors import OptionError
from manyheads.inspection.api import Inspection
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.picture import Picture
from manyheads.inspection.picture import picture as draw
from manyheads.inspection.singlefile import single_file
from manyheads.storage import replace_file

__all__ = ["save"]


def save(inspection: Inspection, path: Path, **picture: Any) -> Path:
    """`picture` is for SVG and PNG: view, kind, layer, … Of letters that a PNG cannot show it warns."""
    form = path.suffix.lower().removeprefix(".")
    ways: dict[str, Callable[[], Picture]] = {
        "html": lambda: Picture(single_file(make_bundle(inspection)), 0),
        "json": lambda: Picture(as_numbers(inspection), 0),
        "svg": lambda: draw(inspection, "svg", **picture),
        "png": lambda: draw(inspection, "png", **picture),
    }
    if form not in ways:
        raise OptionError(f"an inspection is saved as .{', .'.join(ways)}, got {str(path)!r}")
    made = ways[form]()
    replace_file(path, made.content)
    if made.missing:
        warnings.warn(
            f"{made.missing} letters are in no font that is installed here: they are boxes in {path}; an SVG has them as text",
            stacklevel=3,
        )
    return path


def as_numbers(inspection: Inspection) -> bytes:
    return (json.dumps(inspection.as_json(), ensure_ascii=False) + "\n").encode()
