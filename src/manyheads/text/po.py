"""Pairs from gettext PO files: msgid → msgstr, each with the line on which its entry begins.

In an entry with plurals, the first form goes with `msgid` and the others with `msgid_plural`; a single form, which
stands for every number, goes with `msgid_plural`. The header is not a pair. Fuzzy, obsolete and untranslated entries
are left out and counted. If the header says that the translations are in the language that is to be the source, pairs
are swapped.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from manyheads.errors import InputError
from manyheads.text.lines import MAX_LINE, read_lines
from manyheads.text.rows import Pair, ReadOptions, Row, bad_row, decode, segment_row

__all__ = ["read_po"]

KEYWORD = re.compile(r"(msgctxt|msgid|msgid_plural|msgstr(?:\[\d{1,3}\])?)\s+(?=\")")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"\s*')
ESCAPE = re.compile(r"((?:\\[0-7]{1,3}|\\x[0-9a-fA-F]{1,2})+)|\\(.)", re.DOTALL)
LETTERS = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
LANGUAGE = re.compile(r"^Language: *([A-Za-z_@-]+)", re.MULTILINE)
CHARSET = re.compile(r"charset=([^\s;]+)", re.IGNORECASE)
READABLE = {"utf-8", "utf8", "us-ascii", "ascii", "charset"}  # a template that nobody filled in says CHARSET


@dataclass
class Entry:
    """What has been read of an entry: its strings by keyword, and what was wrong on the way.

    too_long   a line above the first keyword that was too long to read: a comment, or else the part that is missing
    """

    line: int = 0
    fuzzy: bool = False
    strings: dict[str, list[str]] = field(default_factory=dict)
    size: int = 0
    notes: tuple[str, ...] = ()
    bad: Row | None = None
    too_long: Row | None = None

    @property
    def is_whole(self) -> bool:
        return any(keyword.startswith("msgstr") for keyword in self.strings)

    @property
    def is_header(self) -> bool:
        return self.text("msgid") == "" and "msgctxt" not in self.strings

    def ends_before(self, line: bytes) -> bool:
        if not self.strings and not self.bad:
            return False
        if not line.strip() or (line.startswith(b"msgid ") and "msgid" in self.strings):
            return True
        return self.is_whole and line.startswith((b"#", b"msgid ", b"msgctxt "))

    def add(self, text: str) -> None:
        self.size += len(text)
        if self.size <= 8 * MAX_LINE:  # beyond that it is too long whatever follows, and is not held in memory
            self.strings[list(self.strings)[-1]].append(text)

    def text(self, keyword: str) -> str | None:
        return "".join(self.strings[keyword]) if keyword in self.strings else None


def read_po(path: str, reading: ReadOptions) -> Iterator[Row]:
    entry, turned = Entry(), False
    for number, line in enumerate(read_lines(path), 1):
        if line is not None and entry.ends_before(line):
            turned |= entry.is_header and into_source(entry.text("msgstr") or "", reading)
            yield from map(turn, rows_of(entry, path)) if turned else rows_of(entry, path)
            entry = Entry()
        if line is not None and line.startswith(b"#~ msgid "):
            entry.fuzzy &= bool(entry.strings)  # a flag above an obsolete entry belongs to it
            yield Row(number, None, ("obsolete",))
        else:
            read_line(line, entry, path, number, reading)
    if entry.strings or entry.bad:
        yield from map(turn, rows_of(entry, path)) if turned else rows_of(entry, path)


def into_source(header: str, reading: ReadOptions) -> bool:
    """Whether the translations are in the language that is to be the source."""
    language = LANGUAGE.search(header)
    return bool(language and reading.source and same_language(language[1], reading.source))


def same_language(one: str, other: str) -> bool:
    """Whether two names mean the same language, as "de" and "de_AT" do."""
    first, second = (name.lower().replace("-", "_").partition("_")[0] for name in (one, other))
    return first == second


def turn(row: Row) -> Row:
    return row._replace(pair=row.pair[::-1]) if row.pair else row


def read_line(line: bytes | None, entry: Entry, path: str, number: int, reading: ReadOptions) -> None:
    """Read another line of an entry. Only the entry's first fault is kept: what follows is of no use."""
    if line is None:
        row = Row(entry.line or number, None, ("too_long",))
        if entry.strings:
            entry.bad = entry.bad or row
        else:
            entry.too_long = entry.too_long or row
        return
    try:
        text, odd = decode(line, path, number, reading)
    except InputError as error:
        if not line.startswith(b"#"):
            entry.line, entry.bad = entry.line or number, entry.bad or bad_row(number, "not_utf8", error, line)
        return
    if text.startswith("#,"):
        entry.fuzzy |= "fuzzy" in re.split(r"[,\s]+", text)
    elif text.strip() and not text.startswith("#"):
        entry.line, entry.notes = entry.line or number, entry.notes or odd
        try:
            read_string(text.strip(), entry, f"{path}, line {number}")
        except InputError as error:
            entry.bad = entry.bad or entry.too_long or bad_row(number, "no_pair", error, text)


def read_string(text: str, entry: Entry, where: str) -> None:
    """Read `keyword "string"`, or a string that continues the last one."""
    keyword = KEYWORD.match(text)
    string = STRING.fullmatch(text, keyword.end() if keyword else 0)
    if string is None or (keyword is None and not entry.strings):
        raise InputError(f'a line of a PO file must be a comment, a keyword and "text", or "text", got {where}')
    if keyword:
        if keyword[1] in entry.strings:
            raise InputError(f"an entry of a PO file must have each keyword once, got {where}: {keyword[1]} again")
        entry.strings[keyword[1]] = []
    entry.add(ESCAPE.sub(unescape, string[1]))


def unescape(match: re.Match[str]) -> str:
    if match[1]:  # bytes of a text in UTF-8
        digits = match[1].split("\\")[1:]
        codes = [int(code[1:], 16) if code[0] == "x" else int(code, 8) & 255 for code in digits]
        return bytes(codes).decode("utf-8", errors="replace")
    return LETTERS.get(match[2], match[2])


def rows_of(entry: Entry, path: str) -> Iterator[Row]:
    if entry.is_header:
        check_charset(entry.text("msgstr") or "", path)
        if entry.bad is None:
            return
    if entry.bad:
        yield entry.bad
    elif "msgid" not in entry.strings or not entry.is_whole:
        fault = InputError(f"an entry of a PO file must have msgid and msgstr, got {path}, line {entry.line}")
        yield entry.too_long or bad_row(entry.line, "no_pair", fault, " ".join(entry.strings))
    elif entry.fuzzy:
        yield Row(entry.line, None, ("fuzzy",))
    else:
        for source, target in pairs_of(entry):
            row = segment_row(entry.line, source, target)
            untranslated = row.pair is not None and not row.pair[1].strip()
            yield (
                Row(row.line, None, ("untranslated",)) if untranslated else row._replace(notes=entry.notes + row.notes)
            )


def pairs_of(entry: Entry) -> list[Pair]:
    singular, plural = entry.text("msgid") or "", entry.text("msgid_plural")
    forms = [entry.text(keyword) or "" for keyword in entry.strings if keyword.startswith("msgstr")]
    if plural is None:
        return [(singular, form) for form in forms]
    return [(singular if n == 0 and len(forms) > 1 else plural, form) for n, form in enumerate(forms)]


def check_charset(header: str, path: str) -> None:
    charset = CHARSET.search(header)
    if charset and charset[1].lower() not in READABLE:
        raise InputError(
            f"a PO file must be in UTF-8, got {path}: its header says charset={charset[1]}",
            hint=f"msgconv -t UTF-8 {path} > utf8.po, or iconv -f {charset[1]} -t UTF-8 and change the header",
        )
