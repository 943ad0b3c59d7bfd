"""Pairs from JSONL: one object per line, {"source": …, "target": …} or with keys that the recipe names.

Hugging Face's shape, {"translation": {"de": …, "en": …}}, is read too; the names are then keys of the inner object.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from manyheads.errors import InputError, brief, nearest
from manyheads.text.lines import MAX_LINE
from manyheads.text.rows import HOW_TO_NAME, ReadOptions, Row, read_line_rows, segment_row

__all__ = ["read_jsonl"]

LONGEST = 12 * MAX_LINE
"""Bytes of a line: two sides of a megabyte each, with every letter written as \\u00e4."""


def read_jsonl(path: str, reading: ReadOptions) -> Iterator[Row]:
    names = reading.source or "source", reading.target or "target"
    return read_line_rows(path, reading, LONGEST, partial(parse_object, path, names))


def parse_line(text: str, where: str) -> dict[str, Any]:
    """The object on a line."""
    found = parse_json(text, where)
    if not isinstance(found, dict):
        raise InputError(f"a line of a JSONL file must be an object, got {where}: {brief(found)}")
    return found


def parse_object(path: str, names: tuple[str, str], number: int, text: str) -> Row:
    where = f"{path}, line {number}"
    found = parse_line(text, where)
    if isinstance(found.get("translation"), dict) and not found.keys() >= set(names):
        found = found["translation"]
    source, target = (side(found, name, where) for name in names)
    return segment_row(number, source, target)


def parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"a line of a JSONL file must be a plain object, got {where}: too deep") from None
    except ValueError as error:  # not JSON, or a number of 5,000 digits
        raise InputError(f"a line of a JSONL file must be JSON, got {where}: {error}") from None


def side(found: dict[str, Any], name: str, where: str) -> str:
    if name not in found:
        keys = list(found)
        meant = nearest(name, keys)
        raise InputError(
            f"an object must have the key {name!r}, got {where}: {brief(keys)}",
            hint=(f"{meant} " if meant else "") + f"name the keys {HOW_TO_NAME}",
        )
    text = found[name]
    if not isinstance(text, str):
        raise InputError(f"the side {name!r} must be text, got {where}: {brief(text)}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"a text must be Unicode, got {where}: half of a surrogate pair in {name!r}, at {error.start}"
        ) from None
    return text
