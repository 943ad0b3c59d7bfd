"""How fast batches are made, against how fast they are used: `python -m benchmarks.input`.

The batches are of the bundled Tatoeba pairs, at budgets from small to large, made as training makes them (one thread).
The figure to compare with is what a model trains on: on one H200, 1.0 to 1.2 million target tokens a second for the
base model, 6 to 10 million for the tiny one.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manyheads.recipe import load_recipe
from manyheads.tasks.translate import Task

PAIRS = [f"src/manyheads/bundled/tatoeba/{part}.tsv.gz" for part in ("train", "dev")]


def measure(make: Callable[[int], Any], steps: int) -> dict[str, float]:
    make(0)  # draws the epoch
    began = time.perf_counter()
    batches = [make(step) for step in range(steps)]
    seconds = time.perf_counter() - began
    parts = [part for batch in batches for part in batch.split(1)]
    tokens, room = sum(b.count for b in batches), sum(part.labels.numel() for part in parts)
    source = sum(int((part.source != 0).sum()) for part in parts) / sum(part.source.numel() for part in parts)
    return {
        "target_tokens_per_s": round(tokens / seconds), "ms_per_batch": round(1000 * seconds / steps, 3),
        "target_fill": round(tokens / room, 4), "source_fill": round(source, 4),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        began, prepared = time.perf_counter(), 0.0
        for budget in (2_048, 8_192, 25_000):
            recipe = load_recipe("small", {"train.tokens": budget})
            data = {"train": PAIRS[:1], "dev": PAIRS[1:]}
            place = Path(folder) / str(budget)
            task = Task.prepare(recipe, place, data, {}, lambda _: None)
            prepared = prepared or time.perf_counter() - began
            for kind, make, packs in (("padded", task.batch, 0), ("packed", task.packs, 1)):
                task.arrange(packs)
                some = min(200, task.batches_per_epoch)
                rows.append({"tokens": budget, "batches": kind, **measure(make, some)})
    result = {"pairs": len(task.data.sources), "prepare_seconds": round(prepared, 1), "rows": rows}
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
