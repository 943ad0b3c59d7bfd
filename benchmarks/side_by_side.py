"""Two trainings at a time on one CPU against one alone, with threads that wait as OpenMP or as `manyheads` has them.

    python -m benchmarks.side_by_side --json benchmarks/results/side_by_side.json

Each is `manyheads train tiny` on some of the bundled pairs, with as many threads as there are cores; its seconds are
those of the training loop. Alone and together take turns. On a machine that others use as well, alone is not alone:
compare only figures on the same line.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.quality import tsv
from benchmarks.setting import setting, write_json
from manyheads.machine import choose_device
from manyheads.waiting import ROUNDS

WAYS = {"as OpenMP does": 300_000, "as manyheads does": ROUNDS}
"""Rounds that a thread waits before it sleeps: libgomp's default (shown by OMP_DISPLAY_ENV=verbose), and ours."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=4_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, Path(folder))
    for row in rows:
        print(
            f"{row['threads']:18} alone {row['alone']:7.1f} s   two at a time {row['together']:7.1f} s: {row['ratio']:.1f}×"
        )
    if options.json:
        write_json(options.json, {**setting(choose_device("cpu")), "cores": os.cpu_count(), "rows": rows})


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    data = folder / "pairs.tsv"
    with gzip.open(tsv("tatoeba", "tiny").train[0], "rb") as file:
        data.write_bytes(b"".join(islice(file, options.pairs)))
    spent: dict[str, dict[int, list[float]]] = {name: {1: [], 2: []} for name in WAYS}
    for _ in range(options.rounds):
        for name, rounds in WAYS.items():
            for count in (1, 2):
                spent[name][count].append(seconds(count, rounds, data, folder, options.steps))
    return [row_of(name, *(statistics.median(found[count]) for count in (1, 2))) for name, found in spent.items()]


def row_of(name: str, alone: float, together: float) -> dict[str, Any]:
    return {"threads": name, "alone": alone, "together": together, "ratio": together / alone}


def seconds(count: int, rounds: int, data: Path, folder: Path, steps: int) -> float:
    """The mean over `count` trainings at a time."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        outs = [Path(place) / str(n) for n in range(count)]
        running = [start(out, rounds, data, steps) for out in outs]
        if any(process.wait() for process in running):
            raise RuntimeError("a training failed")
        return statistics.mean(json.loads((out / "summary.json").read_text())["seconds"] for out in outs)


def start(out: Path, rounds: int, data: Path, steps: int) -> subprocess.Popen[bytes]:
    changes = {
        "train.steps": steps, "train.validate_every": 10**6, "train.validate_lines": 1, "train.replay": "false",
    }  # fmt: skip
    settings = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    words = ["train", "tiny", "--train", str(data), "--out", str(out), "--device", "cpu", *settings]
    ours = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "OMP_NUM_THREADS")}
    return subprocess.Popen(
        [sys.executable, "-m", "manyheads", *words], env={**ours, "GOMP_SPINCOUNT": str(rounds)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


if __name__ == "__main__":
    main()
