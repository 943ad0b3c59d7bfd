"""Memory and speed of preparing a large corpus: `python -m benchmarks.scale --pairs 10000000`.

Each pair joins two random pairs of the bundled Tatoeba corpus, so that few are alike. They are prepared as by
`manyheads train`, then an epoch is drawn and batches are made. What counts is the anonymous memory of all processes
together: the pages of mapped files belong to the kernel, which takes them back when others need them.
"""

import argparse
import gzip
import json
import random
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from manyheads.modelfolder import bundled
from manyheads.recipe import load_recipe
from manyheads.tasks.translate import Task

MEGABYTE = 1 << 20


def write_pairs(path: Path, count: int) -> None:
    random.seed(1)
    with gzip.open(bundled("tatoeba/train.tsv.gz"), "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t") for line in file]
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            (source, target), (more, more_target) = random.choices(pairs, k=2)
            file.write(f"{source} {more}\t{target} {more_target}\n")


def anonymous() -> int:
    """Bytes of anonymous memory, of this process and of those that it started."""
    children = [n for task in Path("/proc/self/task").glob("*/children") for n in task.read_text().split()]
    return sum(anonymous_of(Path("/proc") / n) for n in ("self", *children))


def anonymous_of(process: Path) -> int:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


@contextmanager
def watched(rows: list[dict], what: str, **facts: float):
    """Adds a row with the seconds and the peak of anonymous memory of what is done inside."""
    most, done = [anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            most[0] = max(most[0], anonymous())

    thread = threading.Thread(target=watch)
    thread.start()
    began = time.perf_counter()
    yield facts
    seconds = time.perf_counter() - began
    done.set()
    thread.join()
    row = {"what": what, "seconds": round(seconds, 1), "anonymous_mb": round(most[0] / MEGABYTE)}
    rows.append(row | {f"{name}_per_s": round(count / seconds) for name, count in facts.items()})
    print(json.dumps(rows[-1]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=25_000)
    parser.add_argument("--batches", type=int, default=500)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "train.tsv"
        write_pairs(corpus, options.pairs)
        recipe = load_recipe("base", {"train.tokens": options.tokens})
        data = {"train": [str(corpus)], "dev": [str(bundled("tatoeba/dev.tsv.gz"))]}
        size = corpus.stat().st_size
        with watched(rows, "prepare", pairs=options.pairs) as facts:
            task = Task.prepare(recipe, Path(folder) / "data", data, {}, print)
            facts["target_pieces"] = int(task.data.targets.lengths.sum())
        with watched(rows, "draw an epoch", pairs=options.pairs):
            task.batch(0)
        steps = min(options.batches, task.batches_per_epoch)
        with watched(rows, "make batches") as facts:
            facts["target_tokens"] = sum(task.batch(step).count for step in range(steps))
    result = {"pairs": options.pairs, "megabytes_of_text": round(size / MEGABYTE), "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
