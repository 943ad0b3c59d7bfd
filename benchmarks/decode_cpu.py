"""Translation speed on a CPU against Hugging Face, and against CTranslate2 where that is installed: the same random
weights, the same search, in one run, turn by turn.

    python -m benchmarks.decode_cpu --json benchmarks/results/decode_cpu.json

A base model in Marian's shape (benchmarks/marian.py) reads 25 ids and writes 25, since random weights hardly ever write
an end. It is measured once more with the products of PyTorch's F.linear (nn/linear.py says when ours are others), and in
8 bits. Nobody has a reason to be sure of random words, so where numbers are rounded to 8 bits others are written.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from itertools import product
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from benchmarks import ctranslate
from benchmarks.decode_gpu import OURS, Search, timed
from benchmarks.marian import as_marian, generate
from benchmarks.setting import setting, write_json
from manyheads import Transformer, TransformerConfig
from manyheads.decoding.beam import beam_search
from manyheads.decoding.greedy import decode_one_by_one
from manyheads.models.eightbit import hold_in_eight_bits
from manyheads.nn import linear
from manyheads.text.tokenizer import END, FIRST

SHAPE = TransformerConfig(norm="post", bias=True, positions="sinusoidal-split", tie="all")
PLAIN, HELD, THEIRS = "manyheads, products by F.linear", "manyheads, int8", "Hugging Face generate"
CTRANSLATE = {"CTranslate2": "float32", "CTranslate2, int8": "int8"}
REST = 0.5
"""Seconds before each measurement. Threads keep cores busy for a while after their work, those of CTranslate2 for 0.2."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--beam", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--vocabulary", type=int, default=16_000)
    parser.add_argument("--tokens", type=int, default=25, help="of a source, its end counted, and of an output")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        works_for, rows = all_works(Transformer(SHAPE, options.vocabulary).eval(), Path(folder)), []
        for size, beam in product(options.batch, options.beam):
            source = torch.randint(FIRST, options.vocabulary, (size, options.tokens))
            source[:, -1] = END
            with ExitStack() as stack:
                row = measure(works_for(beam, stack), source, options.tokens, options.rounds)
            rows.append({"batch": size, "beam": beam, **row})
            print(line(rows[-1]), flush=True)
            if options.json:
                write_json(options.json, {**setting(torch.device("cpu")), "tokens": options.tokens, "rows": rows})


def all_works(model: Transformer, folder: Path) -> Callable[[int, ExitStack], dict[str, Search]]:
    """A function that gives the searches to compare for a beam. Their processes end with the stack."""
    marian, held = as_marian(model), deepcopy(model)
    hold_in_eight_bits(held)
    converted = ctranslate.convert(marian, folder / "model") if ctranslate.is_installed() else None

    def works(beam: int, stack: ExitStack) -> dict[str, Search]:
        found = {
            OURS: ours(model, beam), PLAIN: plain(ours(model, beam)), HELD: ours(held, beam),
            THEIRS: partial(generate, marian, beam=beam),
        }  # fmt: skip
        if converted:
            for name, kind in CTRANSLATE.items():
                found[name] = stack.enter_context(ctranslate.searching(converted, kind, beam))
        return found

    return works


def ours(model: Transformer, beam: int) -> Search:
    def search(source: Tensor, limit: int) -> list[list[int]]:
        limits = [limit] * len(source)
        if beam == 1:
            return [found.ids for found in decode_one_by_one(model, source, limits)]
        return [found[0].ids for found in beam_search(model, source, limits, beam=beam, alpha=0.0)]

    return torch.no_grad()(search)


def plain(search: Search) -> Search:
    return mock.patch.object(linear, "ONEDNN", False)(search)


def measure(works: dict[str, Search], source: Tensor, tokens: int, rounds: int) -> dict:
    """Medians over the rounds, after a first pass. The order is reversed from round to round."""
    outputs = {name: timed(work, [(source, tokens)])[1] for name, work in works.items()}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds):
        for name in list(works) if turn % 2 else reversed(works):
            time.sleep(REST)
            seconds[name].append(timed(works[name], [(source, tokens)])[0])
    medians = {name: statistics.median(spent) for name, spent in seconds.items()}
    same = {
        name: sum(a == b for a, b in zip(outputs[OURS], outputs[name], strict=True)) / len(outputs[OURS])
        for name in works
    }
    return {
        "seconds": medians,
        "tokens_s": {name: sum(map(len, outputs[name])) / medians[name] for name in works},
        "ratio": medians[THEIRS] / medians[OURS],
        "worst_ratio": min(b / a for a, b in zip(seconds[OURS], seconds[THEIRS], strict=True)),
        "identical": same[THEIRS],
        "same": same,
    }


def line(row: dict) -> str:
    speeds = "  ".join(f"{name} {speed:,.0f} tokens/s" for name, speed in row["tokens_s"].items())
    return f"batch {row['batch']:>2}  beam {row['beam']}  {speeds}  {row['ratio']:.2f}×  same {row['identical']:.0%}"


if __name__ == "__main__":
    main()
