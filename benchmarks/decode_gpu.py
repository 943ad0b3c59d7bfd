"""Translation speed against Hugging Face: the same weights, the same search, in one run, turn by turn.

    python -m benchmarks.decode_gpu --model RUN --input test_2016_flickr.en.gz --json benchmarks/results/decode_h200.json
    python -m benchmarks.decode_gpu --model RUN --input test_2016_flickr.en.gz --device cpu --sentences 8 --batch 1 4

RUN was trained in Marian's shape (benchmarks/marian.py):

    manyheads train small --train train.en.gz train.de.gz --dev val.en.gz val.de.gz --out RUN --set model.norm=post \\
        --set model.bias=true --set model.positions=sinusoidal-split --set train.rdrop=0 --set train.epochs=40

Both turn ids into ids: cutting text into pieces is not timed. No length is penalised, so that both stop by the same
rule; all sentences of a batch have the same bound on the length. Batches of one are --sentences sentences, spread over
the file; larger batches are the complete file, sorted by length. What a first pass takes longer than the next is the
time for recording, or for warming up.

`generate` runs in two ways: eagerly with a cache that grows, which is its default, and with a static cache, with which
transformers compiles the steps on a GPU. In each row the faster one counts; the row names it and has the times of both.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.marian import as_marian, generate
from benchmarks.setting import setting, write_json
from manyheads import Translator
from manyheads.decoding.batching import pad
from manyheads.decoding.beam import beam_search
from manyheads.decoding.greedy import decode_one_by_one
from manyheads.decoding.rooms import applies, resident_search
from manyheads.machine import choose_device
from manyheads.modelfolder import load_model
from manyheads.text.lines import read_texts

Batches = list[tuple[Tensor, int]]
Search = Callable[[Tensor, int], list[list[int]]]
OURS = "manyheads"
WAYS = {"eager generate": False, "static cache": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a run folder")
    parser.add_argument("--input", required=True, help="a file of source lines")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", nargs="+", default=["fp32", "fp16"])
    parser.add_argument("--beam", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 256])
    parser.add_argument("--sentences", type=int, default=50, help="that are translated one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="of generate")
    parser.add_argument("--resident", action="store_true", help="the search for GPUs, on a CPU too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict] = []
    for precision in options.precision:
        for row in measure_all(options, precision):
            rows.append(row)
            keep(rows, options)  # keep what is measured, even if the rest fails
    show(rows)


def keep(rows: list[dict], options: argparse.Namespace) -> None:
    if options.json:
        write_json(
            options.json, {**setting(choose_device(options.device)), "model": shape_of(options.model), "rows": rows}
        )


def measure_all(options: argparse.Namespace, precision: str) -> Iterator[dict]:
    translator = Translator.load(options.model, options.device, precision)
    marian = as_marian(translator.single)
    lines = [ids for line in translator.read(list(read_texts(options.input))) for ids in line]
    for size, beam in product(options.batch, options.beam):
        batches = make_batches(spread(lines, options.sentences) if size == 1 else lines, size, translator.device)
        row = {"precision": precision, "batch": size, "beam": beam}
        theirs = {way: partial(generate, marian, beam=beam, static=WAYS[way]) for way in options.ways}
        row |= measure(ours(translator, beam, options.resident), theirs, batches, options.rounds)
        print(json.dumps(row), file=sys.stderr, flush=True)
        yield row


def spread(lines: list[list[int]], most: int) -> list[list[int]]:
    return lines[:: max(1, len(lines) // most)][:most]


def make_batches(lines: list[list[int]], size: int, device: torch.device) -> Batches:
    """(source, bound on the tokens of each output), the longest first; batches of one in the order of the file."""
    order = sorted(lines, key=len, reverse=True) if size > 1 else lines
    some = [order[n : n + size] for n in range(0, len(order), size)]
    return [(pad(rows).to(device), 2 * max(map(len, rows)) + 20) for rows in some]


def ours(translator: Translator, beam: int, resident: bool) -> Search:
    """The search that `Translator` would choose on this device."""
    model = translator.single

    def search(source: Tensor, limit: int) -> list[list[int]]:
        limits = [limit] * len(source)
        if resident or applies(model, source, limits, beam):
            return [found[0].ids for found in resident_search(model, source, limits, beam=beam, alpha=0.0)]
        if beam == 1:
            return [found.ids for found in decode_one_by_one(model, source, limits)]
        return [found[0].ids for found in beam_search(model, source, limits, beam=beam, alpha=0.0)]

    return torch.no_grad()(search)


def measure(ours: Search, theirs: dict[str, Search], batches: Batches, rounds: int) -> dict[str, Any]:
    """Medians over the rounds, after two other passes, the first of which is reported separately.

    The order is reversed from round to round.
    """
    works, first, faults = {OURS: ours, **theirs}, {}, {}
    for name, work in list(works.items()):
        try:
            first[name] = timed(work, batches)[0]
            timed(work, batches)  # records what was done once so far, or compiles it for more shapes
        except Exception as error:  # compiling may raise anything: then the other way counts
            if name == OURS:
                raise
            faults[name] = f"{type(error).__name__}: {error}"[:300]
            del works[name]
    if len(works) == 1:
        raise SystemExit(f"there is nobody to be compared with: {faults}")
    seconds: dict[str, list[float]] = {name: [] for name in works}
    outputs = {}
    for turn in range(rounds):
        for name in list(works) if turn % 2 else reversed(works):
            spent, outputs[name] = timed(works[name], batches)
            seconds[name].append(spent)
    return {**figures(seconds, outputs, first), "faults": faults}


def figures(
    seconds: dict[str, list[float]], outputs: dict[str, list[list[int]]], first: dict[str, float]
) -> dict[str, Any]:
    """Our figures against those of the fastest other way."""
    medians = {name: statistics.median(spent) for name, spent in seconds.items()}
    mine = medians.pop(OURS)
    way = min(medians, key=lambda name: medians[name])
    other, pairs = medians[way], list(zip(outputs[OURS], outputs[way], strict=True))
    tokens = [sum(len(ids) + 1 for ids in outputs[name]) for name in (OURS, way)]
    return {
        "sentences": len(pairs), "theirs": way,
        "ours_s": mine, "theirs_s": other, "ratio": other / mine,
        "worst_ratio": min(b / a for a, b in zip(seconds[OURS], seconds[way], strict=True)),
        "ours_sentences_s": len(pairs) / mine, "theirs_sentences_s": len(pairs) / other,
        "ours_tokens_s": tokens[0] / mine, "theirs_tokens_s": tokens[1] / other,
        "identical": sum(a == b for a, b in pairs) / len(pairs),
        "ours_first_pass_s": first[OURS], "theirs_first_pass_s": first[way],
        "all_theirs_s": medians, "all_theirs_first_pass_s": {name: first[name] for name in medians},
    }  # fmt: skip


def timed(work: Search, batches: Batches) -> tuple[float, list[list[int]]]:
    """(seconds, outputs). Each search ends with ids on the host, so nothing is left to wait for."""
    began = time.perf_counter()
    found = [ids for source, limit in batches for ids in work(source, limit)]
    return time.perf_counter() - began, found


def shape_of(folder: str) -> dict[str, int]:
    model = load_model(folder)[0]
    shape = {key: getattr(model.config, key) for key in ("width", "layers", "depth", "heads", "feedforward")}
    return shape | {"words": model.words.num_embeddings}


def show(rows: list[dict]) -> None:
    columns = {
        "precision": "", "batch": "", "beam": "", "sentences": "", "theirs": "", "ours_s": ".3f", "theirs_s": ".3f", "ratio": ".1f",
        "worst_ratio": ".1f", "ours_sentences_s": ".0f", "ours_tokens_s": ".0f", "identical": ".1%", "ours_first_pass_s": ".2f",
    }  # fmt: skip
    print("  ".join(f"{name:>{width(name)}}" for name in columns))
    for row in rows:
        print("  ".join(f"{format(row[name], how):>{width(name)}}" for name, how in columns.items()))


def width(name: str) -> int:
    return max(6, len(name), *(map(len, WAYS) if name == "theirs" else ()))


if __name__ == "__main__":
    main()
