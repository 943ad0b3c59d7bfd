"""A parallel corpus made ready for training: read once, cut into pieces, kept on disk as ids.

    data/train.source.*  train.target.*   ids (see `shards`)
    data/train.lines                      the line of each pair in its file
    data/dev.source.txt  dev.target.txt   the development set, as text
    data/ready.json                       what was counted, and the fingerprint of the files

The ids appear last and complete. They can be made again from the files at any time, and are removed when a run is
finished.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from manyheads.errors import InputError, how_many
from manyheads.storage import replace_file, saving
from manyheads.text.corpus import Corpus, Counts, Pair, files_of, read_pairs
from manyheads.text.encoding import LINES, SIDES, Encoded, encode_spool
from manyheads.text.shards import LINE, Sequences, map_file
from manyheads.text.spool import Spool
from manyheads.text.vocabulary import Vocabulary

__all__ = [
    "Parallel", "fingerprint", "forget_ids", "is_prepared", "open_parallel", "prepare_parallel", "read_dev", "read_ready", "sha256",
]  # fmt: skip

READY = "ready.json"
DEV = ("dev.source.txt", "dev.target.txt")
IDS = [LINES, *(f"{side}.{what}" for side in SIDES for what in ("ids", "offsets"))]
Learn = Callable[[Spool], Vocabulary]


@dataclass(frozen=True, eq=False)
class Parallel:
    """Training pairs as ids, development pairs as text, and what was counted on the way."""

    sources: Sequences
    targets: Sequences
    lines: Int[np.ndarray, " pairs"]
    dev: list[Pair]
    corpora: list[tuple[str, int, float]]  # (name, pairs, weight)
    train_counts: Counts
    dev_counts: Counts
    held_out: bool
    fingerprint: dict[str, str]

    def places(self, pairs: Int[np.ndarray, " some"]) -> dict[str, list[int]]:
        """Where pairs stood: for each corpus that has any of them, their line numbers in order."""
        found: dict[str, list[int]] = {}
        end = 0
        for name, count, _ in self.corpora:
            start, end = end, end + count
            own = pairs[(start <= pairs) & (pairs < end)]
            found[name] = sorted({*found.get(name, ()), *self.lines[own].tolist()})
        return {name: lines for name, lines in found.items() if lines}


def prepare_parallel(
    folder: Path,
    train: Sequence[Corpus],
    dev: Sequence[Corpus] | None,
    learn: Learn,
    max_length: int,
    text: str | None = None,
    cut: bool = False,
) -> Vocabulary:
    """Read both sets, learn the vocabulary from the training set, write the ids.

    learn   called with the training set, as a spool
    cut     pairs longer than `max_length` are cut instead of left out
    text    the digest that the training text must have if it was read before: it identifies data from a pipe
    """
    with saving(folder), ExitStack() as clean_up:
        folder.mkdir(parents=True, exist_ok=True)
        forget_ids(folder)
        counts, dev_counts = Counts(), Counts()
        dev_pairs = read_dev(dev, dev_counts) if dev else []  # the small file first: its faults are found at once
        for left in folder.glob("spool*"):  # of a run that was killed
            shutil.rmtree(left)
        spool = clean_up.enter_context(Spool(folder / f"spool-{os.getpid()}", counts, train, dev_pairs))
        if text not in (None, spool.digest):
            raise InputError(f"a run resumes with the data it started with, got other pairs in {named(train)}")
        if not dev:
            dev_pairs = spool.hold_out()
            dev_counts.pairs = len(dev_pairs)
        vocabulary = learn(spool)
        encoded = encode_spool(spool, vocabulary, max_length, cut)
        kept = [count_encoded(corpus, n, encoded, counts, cut) for n, corpus in enumerate(train)]
        if not counts.pairs:
            held = (
                [f"all {how_many(dev_counts.pairs, 'pair')} held out: they share a source"]
                if not dev and dev_counts.pairs
                else []
            )
            raise InputError(
                f"there must be a pair to train on, got none in {named(train)}: {'; '.join([*counts.sentences(), *held])}",
                hint="--dev names a development set, so that nothing is held out" if held else None,
            )
        write_text(folder, dev_pairs)
        ready = {
            "train": asdict(counts),
            "dev": asdict(dev_counts),
            "held_out": not dev,
            "files": fingerprint({"train": train, "dev": dev}),
            "text": spool.digest,
            "corpora": [[str(corpus), pairs, corpus.weight] for corpus, pairs in zip(train, kept, strict=True)],
            "stored": {name: sha256(str((spool.folder if name in IDS else folder) / name)) for name in (*IDS, *DEV)},
        }
        replace_file(folder / READY, json.dumps({**ready, "sum": sum_of(ready)}).encode())
        for name in IDS:
            os.replace(spool.folder / name, folder / name)
    return vocabulary


def open_parallel(folder: Path, vocabulary: Vocabulary) -> Parallel:
    ready = read_ready(folder)
    lines = [(folder / f"dev.{side}.txt").read_bytes().decode().split("\n")[:-1] for side in ("source", "target")]
    return Parallel(
        Sequences(folder / "train.source", vocabulary.source.size),
        Sequences(folder / "train.target", vocabulary.target.size),
        map_file(folder / LINES, LINE),
        list(zip(*lines, strict=True)),
        [(name, pairs, weight) for name, pairs, weight in ready["corpora"]],
        Counts(**ready["train"]),
        Counts(**ready["dev"]),
        ready["held_out"],
        {
            "train": sum_of([ready["text"], [(pairs, weight) for _, pairs, weight in ready["corpora"]]]),
            "dev": sum_of([ready["stored"][name] for name in DEV]),
        },
    )


def read_ready(folder: Path) -> dict[str, Any]:
    """The contents of ready.json; empty if the data was never made ready or the file is damaged."""
    try:
        ready = json.loads((folder / READY).read_bytes())
        return ready if ready.pop("sum", None) == sum_of(ready) else {}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}


def sum_of(stored: Any) -> str:
    return hashlib.sha256(json.dumps(stored).encode()).hexdigest()


def is_prepared(folder: Path) -> bool:
    """Whether all files are there and unchanged. A resumed run must not learn from a flipped bit."""
    ready = read_ready(folder)
    return bool(ready) and all(
        (folder / name).is_file() and sha256(str(folder / name)) == ready["stored"].get(name) for name in (*IDS, *DEV)
    )


def forget_ids(folder: Path) -> None:
    """Remove the files that are large and can be made again."""
    for file in folder.glob("train.*"):
        file.unlink()


def read_dev(corpora: Sequence[Corpus], counts: Counts) -> list[Pair]:
    """A development or test set, held in memory because it is small."""
    pairs = [pair for corpus in corpora for _, pair in read_pairs(corpus, counts)]
    if not pairs:
        raise InputError(
            f"there must be a pair to score, got none in {named(corpora)}: {'; '.join(counts.sentences())}"
        )
    return pairs


def named(corpora: Sequence[Corpus]) -> str:
    return ", ".join(map(str, corpora))


def fingerprint(data: Mapping[str, Sequence[Corpus] | None]) -> dict[str, list[str | None]]:
    """For each set, the SHA-256 sums of its files; None for a file that cannot be read twice."""
    return {
        name: [sha256(path) if os.path.isfile(path) else None for path in files_of(corpora or ())]
        for name, corpora in data.items()
    }


def sha256(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def count_encoded(corpus: Corpus, number: int, encoded: Sequence[Encoded], counts: Counts, cut: bool) -> int:
    """How many pairs of a corpus are kept. Those left out or cut are counted in `counts`."""
    for one in encoded:
        counts.pairs -= 0 if cut else one.too_long[number]
        counts.note("cut" if cut else "too_long", corpus, one.first[number] or 0, one.too_long[number])
    return sum(one.kept[number] for one in encoded)


def write_text(folder: Path, pairs: list[Pair]) -> None:
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        replace_file(folder / f"dev.{side}.txt", "".join(f"{line}\n" for line in lines).encode())
