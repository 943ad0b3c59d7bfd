"""How fast batches are made, against how fast they are used: `python -m benchmarks.input`.

Batches of the bundled Tatoeba pairs, at budgets from small to large, made as training makes them (one thread). The figure to
compare with is what a model takes in: 0.3 to 1 million target tokens a second for small to base models on one H200.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from manyheads.recipe import load_recipe
from manyheads.tasks.translate import Task

PAIRS = [f"src/manyheads/bundled/tatoeba/{part}.tsv.gz" for part in ("train", "dev")]


def measure(task: Task, steps: int) -> dict[str, float]:
    began = time.perf_counter()
    batches = [task.batch(step) for step in range(steps)]
    seconds = time.perf_counter() - began
    tokens, room = sum(b.count for b in batches), sum(b.labels.numel() for b in batches)
    source = sum(int((b.source != 0).sum()) for b in batches) / sum(b.source.numel() for b in batches)
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
            task.batch(0)  # draws the epoch
            rows.append({"tokens": budget, **measure(task, min(200, task.batches_per_epoch))})
    result = {"pairs": len(task.data.sources), "prepare_seconds": round(prepared, 1), "rows": rows}
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
