"""Sequences of ids on disk, read through memory maps: a corpus may be larger than memory.

NAME.ids       every id, one sequence after the other
NAME.offsets   where each sequence starts, and at last where they end
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Int

from manyheads.storage import sync_file

__all__ = ["Sequences", "sequence_writer"]

Ids = Int[np.ndarray, "*shape"]


def id_type(vocabulary: int) -> type[np.unsignedinteger]:
    """Half the disk for every vocabulary that people use."""
    return np.uint16 if vocabulary <= 1 << 16 else np.uint32


class Sequences:
    """Sequences of ids, by number."""

    def __init__(self, path: Path, vocabulary: int) -> None:
        self.offsets = map_file(beside(path, "offsets"), np.int64)
        self.ids = map_file(beside(path, "ids"), id_type(vocabulary))
        self.lengths = np.subtract(self.offsets[1:], self.offsets[:-1], dtype=np.int32, casting="unsafe")

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Ids:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def padded(self, rows: Ids, before: int | None = None, after: int | None = None) -> Ids:
        """The given sequences as rows of one array, 0 behind them; `before` and `after` are ids put around each."""
        lengths, starts = self.lengths[rows], self.offsets[rows]
        head, tail = int(before is not None), int(after is not None)
        longest = int(lengths.max(initial=0))
        column = np.arange(longest)
        inside = column < lengths[:, None]
        out = np.zeros((len(rows), head + longest + tail), np.int64)
        out[:, head : head + longest][inside] = self.ids[(starts[:, None] + column)[inside]]
        if before is not None:
            out[:, 0] = before
        if after is not None:
            out[np.arange(len(rows)), head + lengths] = after
        return out


def beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}")


def map_file(path: Path, dtype: type) -> np.ndarray:
    # An empty file cannot be mapped.
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


@contextmanager
def sequence_writer(path: Path, vocabulary: int) -> Iterator[Callable[[Sequence[list[int]]], None]]:
    """A function that appends sequences; nothing is held in memory, and at the end all of it is on disk."""
    dtype = id_type(vocabulary)
    end = 0
    with open(beside(path, "ids"), "wb") as ids, open(beside(path, "offsets"), "wb") as offsets:

        def write(sequences: Sequence[list[int]]) -> None:
            nonlocal end
            lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
            ends = end + np.cumsum(lengths)
            ids.write(np.fromiter(chain.from_iterable(sequences), dtype, int(lengths.sum())).tobytes())
            offsets.write(ends.tobytes())
            end += int(lengths.sum())

        offsets.write(np.int64(0).tobytes())
        yield write
        sync_file(ids)
        sync_file(offsets)
