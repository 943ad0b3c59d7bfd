"""A spool's pairs turned into ids, on all cores: each process takes a stretch and writes its ids beside the spool.

Stretches are joined in order, so the result does not depend on how many there were.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import compress, islice
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from manyheads.text.foreign import frame_of
from manyheads.text.joined import Frame
from manyheads.text.processes import Process, cores, start_process
from manyheads.text.shards import GIVEN, LINE, join_files, join_sequences, sequence_writer
from manyheads.text.spool import BLOCK, Spool, read_spool
from manyheads.text.vocabulary import Vocabulary

__all__ = ["Encoded", "encode_spool"]

VOCABULARY = "vocabulary.json"
SIDES, LINES = ("train.source", "train.target"), "train.lines"
MOST = 16
WORTH_A_PROCESS = 10
"""Blocks that a process should have to encode, at least."""


@dataclass
class Encoded:
    """What became of the pairs of a stretch, by corpus.

    kept       how many are kept
    too_long   how many are too long (left out, or cut and kept)
    first      the first line that is too long
    """

    kept: list[int]
    too_long: list[int]
    first: list[int | None]


@dataclass(frozen=True)
class Stretch:
    """What a process has to encode: the pairs between two places (bytes of the source and of the target file).

    cut      pairs that are too long are cut, not left out
    spared   checksums of sources that are not held out, although they are below the bound
    """

    folder: str
    number: int
    start: tuple[int, int]
    end: tuple[int, int]
    max_length: int
    cut: bool
    held_out_below: int
    spared: Sequence[int]
    corpora: int

    def place(self, side: str) -> Path:
        return Path(self.folder) / f"{self.number}.{side}"


def encode_spool(spool: Spool, vocabulary: Vocabulary, max_length: int, cut: bool = False) -> list[Encoded]:
    """Write ids of all pairs to train.source and train.target beside the spool, and line numbers to train.lines.

    Pairs that are too long are left out, or cut.
    """
    work = list(stretches(spool, max_length, cut))
    if len(work) == 1:
        results = [encode_stretch(work[0], vocabulary)]
    else:
        (spool.folder / VOCABULARY).write_text(vocabulary.dumps(), encoding="utf-8")
        results = run_all(work)
    for side in SIDES:
        join_sequences(spool.folder / side, [one.place(side) for one in work])
    join_files(spool.folder / LINES, [one.place(LINES) for one in work])
    return results


def stretches(spool: Spool, max_length: int, cut: bool) -> Iterator[Stretch]:
    processes = max(1, min(MOST, cores(), len(spool.marks) // WORTH_A_PROCESS))
    bounds = [spool.marks[n * (len(spool.marks) - 1) // processes] for n in range(processes + 1)]
    for n in range(processes):
        yield Stretch(
            folder=str(spool.folder),
            number=n,
            start=bounds[n],
            end=bounds[n + 1],
            max_length=max_length,
            cut=cut,
            held_out_below=spool.held_out_below,
            spared=sorted(spool.spared),
            corpora=len(spool.corpora),
        )


def encode_stretch(stretch: Stretch, vocabulary: Vocabulary) -> Encoded:
    found = Encoded([0] * stretch.corpora, [0] * stretch.corpora, [None] * stretch.corpora)
    writers = [sequence_writer(stretch.place(side), size) for side, size in zip(SIDES, vocabulary.sizes, strict=True)]
    most = stretch.max_length * GIVEN.itemsize
    frame = Frame(*frame_of(vocabulary.source), stretch.max_length)

    def cut(ids: bytes) -> bytes:
        return ids if len(ids) <= most else np.array(frame.cut(np.frombuffer(ids, GIVEN).tolist()), GIVEN).tobytes()

    pairs = read_spool(
        Path(stretch.folder), stretch.start, stretch.end, stretch.held_out_below, frozenset(stretch.spared)
    )
    with writers[0] as write_sources, writers[1] as write_targets, open(stretch.place(LINES), "wb") as lines:
        while block := list(islice(pairs, BLOCK)):
            sources = vocabulary.encode_sources([source for _, (source, _) in block])
            targets = vocabulary.target.encode_packed([target for _, (_, target) in block])
            short = [max(len(s), len(t)) <= most for s, t in zip(sources, targets, strict=True)]
            kept = [fits or stretch.cut for fits in short]
            write_sources(list(map(cut, compress(sources, kept))))
            write_targets(list(map(cut, compress(targets, kept))))
            lines.write(np.array([line for (_, line), _ in compress(block, kept)], LINE).tobytes())
            for ((corpus, line), _), fits in zip(block, short, strict=True):
                found.kept[corpus] += fits or stretch.cut
                if not fits:
                    found.too_long[corpus] += 1
                    found.first[corpus] = found.first[corpus] or line
    return found


# ── processes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def run_all(work: Sequence[Stretch]) -> list[Encoded]:
    """Encode each stretch in a process of its own.

    If one fails, everything does, for the reason that the process gave.
    """
    started: list[Process] = []
    try:
        started += map(start, work)
        return [outcome(process) for process in started]
    finally:
        for process in started:
            process.dismiss()


def start(stretch: Stretch) -> Process:
    return start_process("manyheads.text.encoding", json.dumps(asdict(stretch)))


def outcome(process: Process) -> Encoded:
    assert process.stdout is not None
    try:
        answer: dict[str, Any] = json.loads(process.stdout.read())
    except ValueError:
        raise process.failure() from None
    if "errno" in answer:
        raise OSError(answer["errno"], answer["strerror"])
    return Encoded(**answer)


def work_alone() -> None:
    """What a worker process does: read its orders, carry them out, report what became of the pairs."""
    Thread(target=end_with_parent, daemon=True).start()
    stretch = Stretch(**json.loads(sys.argv[1]))
    vocabulary = Vocabulary.loads((Path(stretch.folder) / VOCABULARY).read_text(encoding="utf-8"), VOCABULARY)
    try:
        answer = asdict(encode_stretch(stretch, vocabulary))
    except OSError as error:
        answer = {"errno": error.errno, "strerror": error.strerror}
    sys.stdout.write(json.dumps(answer))


def end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    work_alone()
