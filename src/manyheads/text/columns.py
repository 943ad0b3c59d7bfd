"""Pairs from a TSV file, and pairs from two files read in step."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from manyheads.errors import InputError, how_many
from manyheads.text.lines import MAX_LINE, read_lines
from manyheads.text.rows import ReadOptions, Row, bad_row, decode, read_line_rows

__all__ = ["read_tsv", "read_two", "without_tabs"]

END_OF_FILE: Any = object()


def read_tsv(path: str, reading: ReadOptions) -> Iterator[Row]:
    return read_line_rows(path, reading, 2 * MAX_LINE, partial(parse_columns, path))


def parse_columns(path: str, number: int, text: str) -> Row:
    columns = text.split("\t")
    if len(columns) != 2:
        raise wrong_columns(path, number, columns)
    return Row(number, (columns[0], columns[1]))


def wrong_columns(path: str, number: int, columns: Sequence[str]) -> InputError:
    count = len(columns)
    return InputError(
        f"a line of a TSV file must be source TAB target, got {path}, line {number}: {how_many(count, 'column')}",
        hint=f"to keep only the first two columns: cut -f 1,2 {path} > two-columns.tsv"
        if count > 1
        else "columns must be separated by tabs: save the table again, with tabs instead of commas"
        if path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".csv")
        else "give two files, one for each side, as: source-file target-file",
    )


def read_two(paths: Sequence[str], reading: ReadOptions) -> Iterator[Row]:
    """Read both files in step.

    Files of unequal length are read to their ends, so that the message gives both counts.
    """
    counts = [0, 0]
    both = zip_longest(read_lines(paths[0]), read_lines(paths[1]), fillvalue=END_OF_FILE)
    for number, lines in enumerate(both, 1):
        counts = [number if line is not END_OF_FILE else count for line, count in zip(lines, counts, strict=True)]
        if counts == [number, number]:
            yield row_of_two(paths, number, lines, reading)
    if counts[0] != counts[1]:
        yield Row(max(counts), None, fault=unequal(paths, counts))


def row_of_two(paths: Sequence[str], number: int, lines: Sequence[bytes | None], reading: ReadOptions) -> Row:
    whole = [line for line in lines if line is not None]
    if len(whole) < len(lines):
        return Row(number, None, ("too_long",))
    sides, notes = [], ()
    for path, line in zip(paths, whole, strict=True):
        try:
            text, odd = decode(line, path, number, reading)
        except InputError as error:
            return bad_row(number, "not_utf8", error, b" \xe2\x86\x92 ".join(whole))
        sides.append(text)
        notes = notes or odd
    return Row(number, (sides[0], sides[1]), notes)


def unequal(paths: Sequence[str], counts: Sequence[int]) -> InputError:
    return InputError(
        f"source and target must have the same number of lines, got {counts[0]:,} in {paths[0]} and {counts[1]:,} in {paths[1]}",
        hint="a line missing in one file shifts all lines after it: find it before you cut the longer file",
    )


def without_tabs(text: str) -> str:
    """The text with spaces for tabs and newlines: a tab would start another column."""
    return text.replace("\t", " ").replace("\n", " ")
