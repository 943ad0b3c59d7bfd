"""BPE-dropout (dropout.py) on several cores: one thread cuts some 600,000 tokens a second, and a GPU may need more.

A sentence is cut the same way whatever else is in its batch. So the rows of a batch are dealt out to processes, whose
results are joined in order: the outcome is the same for any number of processes. They read the stored ids through their
own memory maps; only row numbers and piece ids travel.

    first line in     JSON: where the ids are, the tokenizer, how to draw
    then, per batch   in: epoch, count, rows (int64)      out: count, number of pieces, lengths (int32), pieces (int32)
"""

import json
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from manyheads.text.bytepairs import BytePairs
from manyheads.text.dropout import Ids, MergeDropout, Recut, gathered
from manyheads.text.processes import Process, cores, start_process
from manyheads.text.shards import Later, Rows, Sequences

__all__ = ["Cutters", "employed"]

HEAD = struct.Struct("<qq")
WORTH_SENDING = 64
"""Rows that a process should have to cut, at least."""

MOST = 8


class Cutters:
    """Processes that cut the rows of one side, called as `Recut.cut` is.

    They end with `dismiss`, or when this process ends, however it does.
    """

    def __init__(self, stored: Sequences, dropout: MergeDropout, processes: int) -> None:
        told = {
            "path": str(stored.path), "vocabulary": stored.vocabulary, "tokenizer": dropout.tokenizer.as_json(),
            "probability": dropout.probability, "seed": dropout.seed, "side": dropout.side,
        }  # fmt: skip
        line = json.dumps(told).encode() + b"\n"
        # A session of their own: Ctrl-C is meant for this process, which still needs batches until the run is saved.
        self.processes: list[Process] = []
        try:
            for _ in range(processes):
                self.processes.append(start_process(__name__, start_new_session=True))
                send(self.processes[-1], line)
        except BaseException:
            self.dismiss()
            raise

    def __call__(self, rows: Ids, epoch: int) -> Later:
        """Start cutting at once. The result must be waited for before the next call."""
        busy = self.processes[: max(1, len(rows) // WORTH_SENDING)]
        for process, some in zip(busy, np.array_split(rows, len(busy)), strict=True):
            send(process, HEAD.pack(epoch, len(some)) + some.astype(np.int64).tobytes())
        return lambda: joined([receive(process) for process in busy])

    def dismiss(self) -> None:
        for process in self.processes:
            process.dismiss()


@contextmanager
def employed(sides: Iterable[Sequences | Recut]) -> Iterator[None]:
    """While this lasts, processes cut the sides that are cut anew in every epoch, if there are cores for them."""
    processes = min(MOST, cores() // 2)  # per side: both are cut at the same time
    recuts = [side for side in sides if isinstance(side, Recut)] if processes > 1 else []
    with ExitStack() as stack:
        for recut in recuts:
            recut.cut = cutters = Cutters(recut.stored, recut.dropout, processes)
            stack.callback(cutters.dismiss)
            stack.callback(setattr, recut, "cut", recut.cut_here)
        yield


def send(process: Process, content: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(content)
        process.stdin.flush()
    except OSError:
        raise process.failure() from None


def receive(process: Process) -> tuple[Ids, Ids]:
    """(lengths, pieces)"""
    assert process.stdout is not None
    head = process.stdout.read(HEAD.size)
    if len(head) < HEAD.size:
        raise process.failure()
    count, pieces = HEAD.unpack(head)
    content = process.stdout.read(4 * (count + pieces))
    if len(content) < 4 * (count + pieces):
        raise process.failure()
    numbers = np.frombuffer(content, np.int32)
    return numbers[:count], numbers[count:]


def joined(parts: Sequence[tuple[Ids, Ids]]) -> Rows:
    lengths = np.concatenate([lengths for lengths, _ in parts]).astype(np.int64)
    return Rows(np.concatenate([pieces for _, pieces in parts]), np.cumsum(lengths) - lengths, lengths)


# ── what such a process does ────────────────────────────────────────────────────────────────────────────────────────


def work_alone(given: BinaryIO, out: BinaryIO) -> None:
    told: dict[str, Any] = json.loads(given.readline())
    stored = Sequences(Path(told["path"]), told["vocabulary"])
    tokenizer = BytePairs.from_json(told["tokenizer"])
    dropout = MergeDropout(tokenizer, told["probability"], told["seed"], told["side"])
    while len(head := given.read(HEAD.size)) == HEAD.size:
        epoch, count = HEAD.unpack(head)
        rows = np.frombuffer(given.read(8 * count), np.int64)
        drawn = dropout.cut(gathered(stored.rows(rows)), rows, epoch)
        out.write(HEAD.pack(count, len(drawn.ids)))
        out.write(drawn.lengths.astype(np.int32).tobytes() + drawn.ids.astype(np.int32).tobytes())
        out.flush()


if __name__ == "__main__":
    work_alone(sys.stdin.buffer, sys.stdout.buffer)
