"""Lines of a file: bytes, split at "\\n" and nowhere else, so that line 7 is what `sed -n 7p` prints.

Plain, gzip or zstd is told by a file's first bytes, not by its name. "-" is standard input; pipes are read as they come.
"""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import zstandard

from manyheads.errors import InputError

__all__ = ["MAX_LINE", "decode_line", "read_lines"]

MAX_LINE = 1 << 20
"""Bytes. A longer line is no sentence; it is skipped, never held in memory."""

NOT_TEXT = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"PK": "a zip archive", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: str, limit: int = MAX_LINE) -> Iterator[bytes | None]:
    """Each line without its "\\n" (or "\\r\\n"); None for a line of more than `limit` bytes."""
    with open_bytes(path) as file:
        try:
            yield from split_lines(file, limit)
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
            raise InputError(f"a compressed file must be whole, got {path}: {error}") from None


def split_lines(file: BinaryIO, limit: int) -> Iterator[bytes | None]:
    first = True
    while line := file.readline(limit + 2):  # room for "\r\n"
        if first:
            line, first = line.removeprefix(BYTE_ORDER_MARK), False
        whole = line.endswith(b"\n")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > limit:
            skip_line(file, whole)
            yield None
        else:
            yield line


def skip_line(file: BinaryIO, whole: bool) -> None:
    while not whole and (more := file.readline(MAX_LINE)):
        whole = more.endswith(b"\n")


@contextmanager
def open_bytes(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked."""
    try:
        raw = sys.stdin.buffer if path == "-" else open_file(path)
    except OSError as error:
        raise InputError(f"a file must be readable, got {path}: {error.strerror}", hint=where_from(path)) from None
    buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
    try:
        yield unpacked(buffered, path)
    finally:
        if path != "-":
            buffered.close()


def open_file(path: str) -> BinaryIO:
    if "\0" in path:
        raise InputError(f"a file's name holds no NUL, got {path!r}")
    return open(path, "rb")


def where_from(path: str) -> str | None:
    if os.path.isdir(path):
        return "name a file in it"
    return None if os.path.isabs(path) else f"it was looked for in {os.getcwd()}"


def unpacked(file: io.BufferedReader, path: str) -> BinaryIO:
    start = file.peek(6)[:6]
    for magic, kind in NOT_TEXT.items():
        if start.startswith(magic):
            raise InputError(f"a text must be UTF-8, plain or packed by gzip or zstd, got {path}: it looks like {kind}")
    if start.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=file)), 1 << 20))
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, reader), 1 << 20))
    return file


def decode_line(line: bytes, path: str, number: int) -> str:
    """A line as text. Raises with file, line and byte if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"a text must be UTF-8, got {path}, line {number}: byte 0x{line[error.start]:02x} at column {error.start + 1}",
            hint=f"if it is Western European: iconv -f WINDOWS-1252 -t UTF-8 {path} > utf8.txt",
        ) from None
