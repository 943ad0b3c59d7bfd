"""Lines of text written to files that appear only when complete, compressed as their names say."""

import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from manyheads.errors import OptionError, not_written
from manyheads.storage import sync_file

__all__ = ["check_apart", "line_writer"]


def check_apart(written: str | Path, read: Iterable[str]) -> None:
    """Refuse to overwrite a file that is being read. Devices and pipes may be both: a terminal is."""
    if os.path.isfile(written) and os.path.realpath(written) in map(os.path.realpath, read):
        raise OptionError(f"the output and the input must be different files, got {written} for both")


@contextmanager
def line_writer(path: str) -> Iterator[Callable[[str], object]]:
    """A function that writes lines, given without their newline.

    A file appears once all lines are written; pipes and devices are written as the lines come.
    """
    plain = not os.path.exists(path) or os.path.isfile(path)
    real = os.path.realpath(path)  # a link stays a link: /dev/stdout is one, to a file if output is redirected
    folder, name = os.path.split(real)
    place = os.path.join(folder, f".{name}.{os.getpid()}.writing") if plain else path
    try:
        with open(place, "wb") as file:
            with packed(file, path) as packing:
                yield lambda line: packing.write(f"{line}\n".encode())
            if plain:
                sync_file(file)
        if plain:
            os.replace(place, real)
    except BaseException as error:
        if plain:
            with suppress(OSError):
                os.unlink(place)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise not_written(path, error) from None
        raise


@contextmanager
def packed(file: BinaryIO, path: str) -> Iterator[BinaryIO]:
    """Compress what is written if the name says so. Equal lines give equal bytes: no time or name is stored."""
    if path.lower().endswith(".gz"):
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packing:
            yield cast(BinaryIO, packing)
    elif path.lower().endswith(".zst"):
        with zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as packing:
            yield cast(BinaryIO, packing)
    else:
        yield file
