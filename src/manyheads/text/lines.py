"""Lines of a file: bytes, split at "\\n" and nowhere else, so that line 7 is what `sed -n 7p` prints.

Plain text, gzip and zstd are told apart by a file's first bytes, not by its name. "-" is standard input; pipes are read
as they come.
"""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import BinaryIO, cast

import zstandard

from manyheads.errors import InputError

__all__ = ["MAX_LINE", "decode_line", "looks_like_utf16", "open_text", "read_lines", "read_texts"]

MAX_LINE = 1 << 20
"""Bytes. A longer line is not a sentence; it is skipped and never held in memory."""

LONGEST_TEXT = 64 * MAX_LINE

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
NOT_TEXT = {
    **dict.fromkeys(UTF16, "UTF-16"),
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ\x00": "xz",
    **{b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)},
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: str, limit: int = MAX_LINE) -> Iterator[bytes | None]:
    """Each line without its "\\n" (or "\\r\\n"); None for a line of more than `limit` bytes."""
    with open_text(path) as file:
        yield from split_lines(file, limit)


@contextmanager
def open_text(path: str, utf16: bool = False) -> Iterator[BinaryIO]:
    """The bytes of a text, decompressed.

    A file that cannot be opened, or read to its end, raises an InputError; so does UTF-16, unless it is allowed.
    """
    try:
        with open_file(path) as file:
            yield unpacked(file, path, utf16)
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise InputError(f"a compressed file must be complete, got {path}: {error}") from None
    except OSError as error:
        raise InputError(f"a file must be readable, got {path}: {error.strerror}", hint=where_from(path)) from None


def split_lines(file: BinaryIO, limit: int) -> Iterator[bytes | None]:
    longest = limit + len(b"\r\n")
    line = file.readline(len(BYTE_ORDER_MARK) + longest).removeprefix(BYTE_ORDER_MARK)
    while line:
        text = line.removesuffix(b"\r\n").removesuffix(b"\n")
        if len(text) > limit:
            skip_line(file, whole=line.endswith(b"\n"))
            yield None
        else:
            yield text
        line = file.readline(longest)


def skip_line(file: BinaryIO, whole: bool) -> None:
    while not whole and (more := file.readline(MAX_LINE)):
        whole = more.endswith(b"\n")


def open_file(path: str) -> AbstractContextManager[io.BufferedReader]:
    if "\0" in path:
        raise InputError(f"a file's name must contain no NUL, got {path!r}")
    return nullcontext(cast(io.BufferedReader, sys.stdin.buffer)) if path == "-" else open(path, "rb")


def where_from(path: str) -> str | None:
    if os.path.isdir(path):
        return "name a file in it"
    if os.path.exists(path):
        return None
    if " " in path.strip():
        return f"to give a sentence, use standard input: echo {path!r} | …"
    return None if os.path.isabs(path) or path == "-" else f"it was looked for in {os.getcwd()}"


# ── packed files ────────────────────────────────────────────────────────────────────────────────────────────────────


def unpacked(file: io.BufferedReader, path: str, utf16: bool = False) -> BinaryIO:
    """The text of a file, decompressed if its first bytes say so."""
    start = read_magic(file)
    if start in NOT_TEXT and not (utf16 and start in UTF16):
        raise InputError(
            f"a text must be UTF-8, plain or compressed with gzip or zstd, got {path}: it looks like {NOT_TEXT[start]}",
            hint=from_utf16(path) if start in UTF16 else None,
        )
    whole = io.BufferedReader(PutBack(start, file), MAX_LINE)
    if start == GZIP:
        return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=whole)), MAX_LINE)
    return io.BufferedReader(Unzstd(whole), MAX_LINE) if start == ZSTD else whole


def read_magic(file: io.BufferedReader) -> bytes:
    """As few bytes as tell the format, for most texts one: someone may be typing, or a pipe may be slow."""
    start, magics = b"", (GZIP, ZSTD, *NOT_TEXT)
    while any(magic.startswith(start) and magic != start for magic in magics) and (more := file.read(1)):
        start += more
    return start


class PutBack(io.RawIOBase):
    """A file, preceded by the bytes that were already read from it."""

    def __init__(self, start: bytes, rest: io.BufferedReader) -> None:
        self.start, self.rest = start, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # read1 returns what is there. readinto1 would wait for a large buffer to fill, and so would whoever is typing.
        start = self.start or self.rest.read1(len(buffer))
        count = min(len(buffer), len(start))
        buffer[:count], self.start = start[:count], start[count:]
        return count


class Unzstd(io.RawIOBase):
    """The content of zstd frames, one after the other.

    zstandard's own reader takes a truncated file for a complete one.
    """

    CHUNK = 1 << 8
    """Compressed bytes taken at a time: in the worst file they become 8 MB."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.packed, self.ready = file, b"", b""
        self.new_frame = zstandard.ZstdDecompressor().decompressobj
        self.frame = self.new_frame()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self.ready and (packed := self.packed or self.file.read(self.CHUNK)):
            if self.frame.eof:
                self.frame = self.new_frame()
            self.ready = self.frame.decompress(packed)
            self.packed = self.frame.unused_data
        if not self.ready and not self.frame.eof:
            raise EOFError("it ends in the middle")
        count = min(len(buffer), len(self.ready))
        buffer[:count], self.ready = self.ready[:count], self.ready[count:]
        return count


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_texts(path: str) -> Iterator[str]:
    """Every line as text. A line may be as long as a book here, but no longer: none may be left out."""
    for number, line in enumerate(read_lines(path, LONGEST_TEXT), 1):
        if line is None:
            raise InputError(f"a line must have at most {LONGEST_TEXT:,} bytes, got {path}, line {number}")
        yield decode_line(line, path, number)


def decode_line(line: bytes, path: str, number: int) -> str:
    """A line as text. If it is not UTF-8, the error names file, line and byte."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        if looks_like_utf16(line) and (
            number == 1 or not line.startswith(UTF16)
        ):  # a byte order mark stands at the beginning of a file
            raise utf16(path, number) from None
        where, again = ("standard input", "") if path == "-" else (path, f" {path}")
        raise InputError(
            f"a text must be UTF-8, got {where}, line {number}: byte 0x{line[error.start]:02x} at column {error.start + 1}",
            hint=f"if it is Western European: iconv -f WINDOWS-1252 -t UTF-8{again} > utf8.txt",
        ) from None
    if "\0" in text and looks_like_utf16(line):
        raise utf16(path, number)
    return text


def looks_like_utf16(line: bytes) -> bool:
    """Whether a line has a byte order mark, or a NUL beside every Latin letter: about every other byte.

    A stray NUL is a control character.
    """
    return line.startswith(UTF16) or (line.count(0) >= 4 and len(line) <= 3 * line.count(0) <= 2 * len(line))


def utf16(path: str, number: int) -> InputError:
    return InputError(f"a text must be UTF-8, got {path}, line {number}: it looks like UTF-16", hint=from_utf16(path))


def from_utf16(path: str) -> str:
    return f"iconv -f UTF-16 -t UTF-8 {path} > utf8.txt (UTF-16LE or UTF-16BE if it has no byte order mark)"
