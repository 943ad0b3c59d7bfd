"""An inspection as a file: a page, a picture, or numbers. The name says which."""

import json
from collections.abc import Callable
from pathlib import Path

from manyheads.errors import OptionError
from manyheads.inspection.api import Inspection
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.singlefile import single_file
from manyheads.storage import replace_file

__all__ = ["save"]


def save(inspection: Inspection, path: Path) -> Path:
    ways: dict[str, Callable[[Inspection], bytes]] = {".html": as_page, ".json": as_numbers}
    if path.suffix.lower() not in ways:
        raise OptionError(f"an inspection is saved as {', '.join(ways)}, got {str(path)!r}")
    replace_file(path, ways[path.suffix.lower()](inspection))
    return path


def as_page(inspection: Inspection) -> bytes:
    return single_file(make_bundle(inspection))


def as_numbers(inspection: Inspection) -> bytes:
    return (json.dumps(inspection.as_json(), ensure_ascii=False) + "\n").encode()
