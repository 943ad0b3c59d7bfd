"""Sequences of ids on disk, read through memory maps: a corpus may be larger than memory.

NAME.ids       all ids, one sequence after the other
NAME.offsets   where each sequence starts, and finally where the last one ends

Beside the two sides of a corpus lies a file with the line number of each pair.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from manyheads.storage import sync_file

__all__ = ["LINE", "Later", "Rows", "Sequences", "join_files", "join_sequences", "map_file", "sequence_writer"]

Ids = Int[np.ndarray, "*shape"]
GIVEN = np.dtype(np.int32)
LINE = np.dtype(np.int64)
CHUNK = 1 << 20


def id_type(vocabulary: int) -> type[np.unsignedinteger]:
    """16 bits, or 32 if the vocabulary needs them: half the disk space for every vocabulary that people use."""
    return np.uint16 if vocabulary <= 1 << 16 else np.uint32


class Sequences:
    """Sequences of ids, indexed by number."""

    def __init__(self, path: Path, vocabulary: int) -> None:
        self.path, self.vocabulary = path, vocabulary
        self.offsets = map_file(beside(path, "offsets"), np.int64)
        self.ids = map_file(beside(path, "ids"), id_type(vocabulary))
        self.lengths = np.subtract(self.offsets[1:], self.offsets[:-1], dtype=np.int32, casting="unsafe")

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Ids:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def rows(self, rows: Ids, epoch: int = 0, room: int | None = None) -> "Rows":
        """The given sequences, which are the same in every epoch."""
        return Rows(self.ids, self.offsets[rows], self.lengths[rows])

    def begin(self, rows: Ids, epoch: int = 0, room: int | None = None) -> "Later":
        return partial(self.rows, rows, epoch, room)


class Rows(NamedTuple):
    """Sequences as parts of one long array."""

    ids: Ids
    starts: Ids
    lengths: Ids

    def some(self, rows: Sequence[int] | Ids) -> "Rows":
        return Rows(self.ids, self.starts[list(rows)], self.lengths[list(rows)])

    def padded(self, before: int | None = None, after: int | None = None) -> Int[np.ndarray, "B T"]:
        """One sequence per row, with 0 after it; `before` and `after` are ids put around each."""
        head, tail = int(before is not None), int(after is not None)
        longest = int(self.lengths.max(initial=0))
        column = np.arange(longest)
        inside = column < self.lengths[:, None]
        out = np.zeros((len(self.starts), head + longest + tail), np.int64)
        out[:, head : head + longest][inside] = self.ids[(self.starts[:, None] + column)[inside]]
        if before is not None:
            out[:, 0] = before
        if after is not None:
            out[np.arange(len(self.starts)), head + self.lengths] = after
        return out

    def packed(
        self, tokens: int, sequences: int, padding: int, longest: int, after: int | None = None
    ) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " starts"]]:
        """(the sequences one after the other, filled up with 0 to `tokens`; where each starts, and finally `tokens`).

        `after`, if given, follows each sequence. Empty sequences come next, up to the given number of `sequences`, and
        then `padding` more that hold the padding, none longer than `longest`.
        """
        lengths = self.lengths + (after is not None)
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        out = np.zeros(tokens, np.int64)
        within = np.arange(total) - np.repeat(ends - lengths, lengths)
        last = within == np.repeat(self.lengths, lengths)
        where = np.repeat(self.starts, lengths) + within
        out[:total][~last] = self.ids[where[~last]]
        out[:total][last] = after or 0
        offsets = np.full(sequences + padding + 1, total, np.int32)
        offsets[0], offsets[1 : len(ends) + 1] = 0, ends
        offsets[sequences + 1 :] = np.minimum(total + longest * np.arange(1, padding + 1), tokens)
        return out, offsets


Later = Callable[[], Rows]
"""Rows that processes may still be working on: the caller waits for them."""


def beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}")


def map_file(path: Path, dtype: type | np.dtype) -> np.ndarray:
    # An empty file cannot be mapped.
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


@contextmanager
def sequence_writer(path: Path, vocabulary: int) -> Iterator[Callable[[Sequence[bytes]], None]]:
    """A function that appends sequences (32-bit numbers).

    Nothing is held in memory, and on exit everything is on disk.
    """
    dtype = id_type(vocabulary)
    end = 0
    with open(beside(path, "ids"), "wb") as ids, open(beside(path, "offsets"), "wb") as offsets:

        def write(sequences: Sequence[bytes]) -> None:
            nonlocal end
            lengths = np.fromiter(map(len, sequences), np.int64, len(sequences)) // GIVEN.itemsize
            ids.write(np.frombuffer(b"".join(sequences), GIVEN).astype(dtype).tobytes())
            offsets.write((end + np.cumsum(lengths)).tobytes())
            end += int(lengths.sum())

        offsets.write(np.int64(0).tobytes())
        yield write
        sync_file(ids)
        sync_file(offsets)


def join_sequences(path: Path, parts: Sequence[Path]) -> None:
    """Join the sequences of several writers, in order; the parts are removed."""
    end = 0
    join_files(beside(path, "ids"), [beside(part, "ids") for part in parts])
    with open(beside(path, "offsets"), "wb") as offsets:
        offsets.write(np.int64(0).tobytes())
        for part in parts:
            its_offsets = beside(part, "offsets")
            stored = map_file(its_offsets, np.int64)
            for start in range(1, len(stored), CHUNK):
                offsets.write((stored[start : start + CHUNK] + end).tobytes())
            end += int(stored[-1])
            its_offsets.unlink()
        sync_file(offsets)


def join_files(path: Path, parts: Sequence[Path]) -> None:
    """Join files, in order; the parts are removed."""
    with open(path, "wb") as whole:
        for part in parts:
            with open(part, "rb") as file:
                shutil.copyfileobj(file, whole, CHUNK)
            part.unlink()
        sync_file(whole)
