"""`--set key=value`: change keys of a recipe on the command line."""

import tomllib
from collections.abc import Iterable
from typing import Any

from manyheads.errors import OptionError

__all__ = ["parse_changes"]


def parse_changes(settings: Iterable[str]) -> dict[str, Any]:
    """{"model.width": 256} from "model.width=256". Values are TOML; anything that does not parse is taken as text."""
    changes = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key.count(".") != 1:
            raise OptionError(f"--set takes section.key=value, got {setting!r}", hint="--set model.width=256")
        changes[key] = parse_value(value)
    return changes


def parse_value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}") if len(text) < 10_000 else {}
    except (ValueError, RecursionError):
        return text
    return table["value"] if list(table) == ["value"] else text
