"""Texts with labels, as rows whose target is the label.

    TSV         LABEL  TAB  TEXT,  or  LABEL  TAB  TEXT  TAB  SECOND TEXT
    JSONL       {"label": …, "text": …}, and "text2" for a second text; the recipe may rename the first two keys
    two files   one of texts, with TEXT or TEXT  TAB  SECOND TEXT on each line, and one of their labels

Blanks around a label are not part of it: "glad" and "glad " are the same label. A source is always one line; two texts
stand in it with a tab between them.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from manyheads.errors import InputError, brief
from manyheads.text.columns import read_two
from manyheads.text.jsonl import LONGEST, parse_line, side
from manyheads.text.lines import MAX_LINE
from manyheads.text.rows import ReadOptions, Row, bad_row, one_line, read_line_rows, segment_row

__all__ = ["read_labelled_jsonl", "read_labelled_tsv", "read_labelled_two", "split_texts"]

LABEL, TEXT, SECOND = "label", "text", "text2"


def read_labelled_tsv(path: str, reading: ReadOptions) -> Iterator[Row]:
    return read_line_rows(path, reading, 3 * MAX_LINE, partial(parse_columns, path))


def parse_columns(path: str, number: int, line: str) -> Row:
    label, *texts = line.split("\t")
    if len(texts) not in (1, 2):
        raise InputError(
            f"a line must be LABEL TAB TEXT, or LABEL TAB TEXT TAB SECOND TEXT, got {path}, line {number}: {1 + len(texts)} "
            + ("columns" if texts else "column"),
            hint=None if texts else "the label comes first, then a tab",
        )
    return labelled_row(number, label, texts)


def read_labelled_jsonl(path: str, reading: ReadOptions) -> Iterator[Row]:
    names = reading.source or TEXT, reading.target or LABEL
    return read_line_rows(path, reading, LONGEST, partial(parse_object, path, names))


def parse_object(path: str, names: tuple[str, str], number: int, line: str) -> Row:
    where = f"{path}, line {number}"
    found = parse_line(line, where)
    text, label = names
    if type(found.get(label)) is int:
        found[label] = str(found[label])  # many datasets number their labels
    texts = [side(found, name, where) for name in (text, SECOND) if name == text or found.get(name) is not None]
    lines = [one_line(one) for one in texts]
    plain = [line.replace("\t", " ") for line in lines]
    row = labelled_row(number, checked_label(side(found, label, where), where), plain)
    changed = {"newline": lines != texts, "tab": plain != lines}
    return row._replace(notes=(*row.notes, *(what for what, there in changed.items() if there)))


def read_labelled_two(paths: Sequence[str], reading: ReadOptions) -> Iterator[Row]:
    for row in read_two(paths, reading):
        yield row if row.pair is None else checked_row(paths, row, *row.pair)


def checked_row(paths: Sequence[str], row: Row, line: str, label: str) -> Row:
    try:
        texts = split_texts(line, f"{paths[0]}, line {row.line}: ")
        found = labelled_row(row.line, checked_label(label, f"{paths[1]}, line {row.line}"), texts)
    except InputError as error:
        return bad_row(row.line, "no_pair", error, f"{line} → {label}")
    return found._replace(notes=row.notes + found.notes)


def split_texts(line: str, where: str = "") -> list[str]:
    """The one or two texts of a line. `where` names the line in error messages, if that is known."""
    texts = line.split("\t")
    if len(texts) > 2:
        raise InputError(
            f"a line must hold a text, or two with a tab between them, got {where}{len(texts)} texts: {brief(line)}"
        )
    return texts


def checked_label(label: str, where: str) -> str:
    if "\n" in label or "\t" in label:
        raise InputError(f"a label must be one line without a tab, got {where}: {brief(label)}")
    return label


def labelled_row(number: int, label: str, texts: list[str]) -> Row:
    """A row whose source is blank if one of its texts is: half a pair is no pair."""
    whole = all(text.strip() for text in texts)
    return segment_row(number, "\t".join(texts) if whole else "", label.strip())
