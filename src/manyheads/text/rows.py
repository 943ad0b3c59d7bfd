"""Rows, which the readers of all formats yield. A row is a pair, or the reason why there is none."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from manyheads.errors import InputError
from manyheads.text.lines import MAX_LINE, decode_line, looks_like_utf16, read_lines

__all__ = [
    "HOW_TO_NAME",
    "BadLines",
    "Pair",
    "ReadOptions",
    "Row",
    "bad_row",
    "decode",
    "one_line",
    "read_line_rows",
    "segment_row",
]

Pair = tuple[str, str]
BadLines = Literal["error", "skip", "replace"]
HOW_TO_NAME = "with --source and --target or, for training, with --set data.source=… --set data.target=…"
SHOWN = 200
"""Characters of a bad row that are kept for display."""


@dataclass(frozen=True)
class ReadOptions:
    """How files are read: `data.source`, `data.target` and `data.bad_lines` of a recipe.

    source, target   names of the sides in files that name them: keys of JSONL, languages of TMX
    bad_lines        "error": refuse a file with unreadable lines; "skip" them; "replace" the bytes that are not UTF-8
    texts            every line is a text, whatever is in it, and makes a pair with a blank target
    labels           the target is a label, which stands before its text (see `labelled`)
    """

    source: str | None = None
    target: str | None = None
    bad_lines: BadLines = "error"
    texts: bool = False
    labels: bool = False

    def usable(self, pair: Pair | None) -> bool:
        """Whether there is something to learn from."""
        return pair is not None and bool(pair[0]) and (self.texts or bool(pair[1]))


class Row(NamedTuple):
    """One row of a corpus.

    line    where it begins, counted from 1
    pair    source and target, each one line; None if there is none
    notes   fields of `Counts` that count it: why there is no pair, or what is odd about the pair
    fault   the error, if the row cannot be read; without a note, it makes the entire file unusable
    text    the beginning of what could not be read
    """

    line: int
    pair: Pair | None
    notes: tuple[str, ...] = ()
    fault: InputError | None = None
    text: str = ""


def bad_row(line: int, note: str, fault: InputError, text: str | bytes) -> Row:
    shown = text[:SHOWN].decode("utf-8", errors="replace") if isinstance(text, bytes) else text[:SHOWN]
    return Row(line, None, (note,), fault, shown)


def read_line_rows(path: str, reading: ReadOptions, limit: int, parse: Callable[[int, str], Row]) -> Iterator[Row]:
    """Rows of a format with one row per line.

    `parse` is given text that is not blank; what it refuses is not a pair.
    """
    for number, line in enumerate(read_lines(path, limit), 1):
        if line is None:
            yield Row(number, None, ("too_long",))
        elif not line.strip():
            yield Row(number, ("", ""))
        else:
            yield line_row(line, path, number, reading, parse)


def line_row(line: bytes, path: str, number: int, reading: ReadOptions, parse: Callable[[int, str], Row]) -> Row:
    try:
        text, notes = decode(line, path, number, reading)
    except InputError as error:
        return bad_row(number, "not_utf8", error, line)
    try:
        row = parse(number, text)
    except InputError as error:
        return bad_row(number, "no_pair", error, text)
    return row._replace(notes=notes + row.notes) if notes else row


def decode(line: bytes, path: str, number: int, reading: ReadOptions) -> tuple[str, tuple[str, ...]]:
    """A line as text, and notes about it. Raises if it is not UTF-8, unless bad bytes are to be replaced.

    UTF-16 always raises: nothing in it could be saved.
    """
    try:
        return decode_line(line, path, number), ()
    except InputError:
        if reading.bad_lines != "replace" or looks_like_utf16(line):
            raise
        return line.decode("utf-8", errors="replace"), ("replaced",)


def segment_row(line: int, source: str, target: str) -> Row:
    """A pair from a format whose segments may have several lines.

    Each side becomes one line; if a side is too long for a line, there is no pair.
    """
    if any(len(side) > MAX_LINE or len(side.encode("utf-8")) > MAX_LINE for side in (source, target)):
        return Row(line, None, ("too_long",))
    pair = one_line(source), one_line(target)
    return Row(line, pair, ("newline",) if pair != (source, target) else ())


def one_line(text: str) -> str:
    """A newline and the blanks around it become one space, or nothing at either end of the text."""
    if "\n" not in text:
        return text
    return " ".join(filter(None, (part.strip(" \t\r") for part in text.split("\n"))))
