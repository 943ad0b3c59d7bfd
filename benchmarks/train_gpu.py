"""Training speed of this project, PyTorch's nn.Transformer and Hugging Face's Marian, side by side in one run.

    python -m benchmarks.train_gpu --json FILE                     the base size, batches of 12.5k and 50k target tokens
    python -m benchmarks.train_gpu --sizes tiny big --json FILE
    python -m benchmarks.train_gpu --device cpu --quick            runs all code in little time; figures mean nothing

Every system is a process; all compile at the same time, then they are measured one at a time, in turns, in several
rounds. Real target tokens are counted, padding is not. The peers get padded batches of similar lengths, ours gets
packed batches of the same pairs; all are on the GPU beforehand. A peer is compiled in two ways, and the faster one
counts: "dynamic", sorted batches of any shape, compiled once for all shapes; and "static", a few shapes, each compiled
by itself and run as CUDA graphs (mode="reduce-overhead"), with more padding (not for the big size at 50k tokens: the
graphs of all systems would not fit into the memory of one GPU).
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.corpus import share_of_peak
from benchmarks.setting import setting, write_json
from benchmarks.train_child import MARIAN, OURS, SIZES, TORCH, Job
from benchmarks.turns import Child, warm_up

MEASUREMENT = 90
"""Seconds that one measurement may take."""

MOST_KEPT = 512 * 50_000
"""Width × tokens of a batch up to which a peer is run as CUDA graphs; beyond it, only compiled for all shapes."""

WAYS = ("dynamic", "static")
Row = dict[str, Any]


def jobs_of(size: str, options: argparse.Namespace, lock: str) -> Iterator[Job]:
    """A job with fixed shapes is compiled for one batch size, in a process of its own; the others take all sizes."""
    budgets = tuple(options.tokens)

    def job(system: str, mode: str, way: str = "", some: tuple[int, ...] = budgets) -> Job:
        return Job(system, mode, way, size, some, options.device, options.batches, options.shapes, lock)

    for budget in budgets:
        yield job(OURS, "graphed", some=(budget,))
    yield job(OURS, "eager")
    for peer in (TORCH, MARIAN):
        yield job(peer, "eager")
        if "dynamic" in options.ways:
            yield job(peer, "compiled", "dynamic")
        if "static" in options.ways:
            yield from (job(peer, "compiled", "static", (budget,)) for budget in budgets if fits(size, budget))


def fits(size: str, budget: int) -> bool:
    """True if a peer may be run as CUDA graphs.

    Graphs keep their memory while others are measured: those of the big size at 50k tokens would leave too little.
    """
    return SIZES[size].width * budget <= MOST_KEPT


def start(jobs: Sequence[Job], logs: Path) -> list[Child]:
    compiling = sum(job.mode != "eager" for job in jobs)
    threads = str(max(1, len(os.sched_getaffinity(0)) // max(1, compiling)))
    environment = {"TORCHINDUCTOR_COMPILE_THREADS": threads, "OMP_NUM_THREADS": threads}
    module = [sys.executable, "-m", "benchmarks.train_child"]
    return [Child([*module, json.dumps(asdict(job))], logs / f"{job.name}.log", environment) for job in jobs]


def measure(size: str, options: argparse.Namespace, logs: Path) -> Iterator[tuple[list[Row], list[Row]]]:
    """(rows, faults) of all systems at one size, again after every round."""
    jobs = list(jobs_of(size, options, str(logs / "lock")))
    children = start(jobs, logs)
    taken: dict[tuple[int, int], list[Row]] = {}
    try:
        began = time.monotonic()
        ready = warm_up(children, options.limit)
        well = sum(child.fault is None for child in children)
        print(f"{size}: {well} of {len(jobs)} ready after {time.monotonic() - began:.0f} s", flush=True)
        for turn in range(options.rounds):
            for budget in options.tokens:
                for number, child in list(enumerate(children))[:: -1 if turn % 2 else 1]:
                    if budget in jobs[number].budgets and (found := child.ask(f"measure {budget}", MEASUREMENT)):
                        taken.setdefault((number, budget), []).append(found)
            rows = [
                make_row(jobs[number], budget, ready[number] or {}, all_of_it)
                for (number, budget), all_of_it in taken.items()
            ]
            yield rows, [make_fault(job, child) for job, child in zip(jobs, children, strict=True) if child.fault]
    finally:
        for child in children:
            child.end()


def make_fault(job: Job, child: Child) -> Row:
    return {
        "system": job.system, "mode": job.mode, "way": job.way, "size": job.size, "budgets": list(job.budgets),
        "fault": child.fault,
    }  # fmt: skip


def make_row(job: Job, budget: int, ready: Row, rounds: Sequence[Row]) -> Row:
    """The median over the rounds, which all did the same work."""
    times = sorted(one["seconds"] for one in rounds)
    seconds, one = statistics.median(times), rounds[-1]
    return {
        "system": job.system, "mode": job.done_mode, **({"way": job.way} if job.way else {}), "size": job.size,
        "batch_tokens": budget,
        "target_tokens_per_s": round(one["tokens"] / seconds),
        "share_of_peak": round(share_of_peak(one["multiply_adds"], seconds), 4),
        "ms_per_step": round(1000 * seconds / one["steps"], 2),
        "tokens_per_step": round(one["tokens"] / one["steps"]),
        "compile_seconds": ready.get("compile_seconds", 0.0),
        "peak_memory_gib": one["peak_memory_gib"],
        "loss": round(one["loss"], 4), "rounds": len(rounds), "spread": round(times[-1] / times[0], 3),
    }  # fmt: skip


def fastest(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """(the fastest way of each system, mode, size and batch; the others)"""
    best: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: row["target_tokens_per_s"]):
        best[row["system"], row["mode"], row["size"], row["batch_tokens"]] = row
    kept = [row for row in rows if any(row is one for one in best.values())]
    return kept, [row for row in rows if all(row is not one for one in best.values())]


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of a table; the last column is our graphed speed over that of the row."""
    yield f"{'size':6}{'batch':>7}  {'system':38}{'k tok/s':>9}{'of peak':>9}{'ms/step':>9}{'GiB':>7}{'compile s':>10}{'ours is':>9}"
    ours = {(r["size"], r["batch_tokens"]): r for r in rows if (r["system"], r["mode"]) == (OURS, "graphed")}
    for row in sorted(rows, key=lambda row: (row["size"], row["batch_tokens"])):
        best = ours.get((row["size"], row["batch_tokens"]))
        ratio = f"{best['target_tokens_per_s'] / row['target_tokens_per_s']:8.2f}×" if best else f"{'–':>9}"
        name = ", ".join(filter(None, (row["system"], row["mode"], row.get("way"))))
        yield (
            f"{row['size']:6}{row['batch_tokens']:7}  {name:38}{row['target_tokens_per_s'] / 1000:9.1f}{row['share_of_peak']:9.2%}"
            f"{row['ms_per_step']:9.1f}{row['peak_memory_gib']:7.1f}{row['compile_seconds']:10.0f}{ratio}"
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=["base"])
    parser.add_argument("--tokens", nargs="+", type=int, default=[12_500, 50_000], help="target tokens of a batch")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS), help="of compiling the peers")
    parser.add_argument("--shapes", type=int, default=3, help="of static batches")
    parser.add_argument("--batches", type=int, default=12, help="of a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--limit", type=float, default=240, help="seconds that warming up may take, compilation included"
    )
    parser.add_argument("--logs", type=Path, help="a folder for what the processes print (default: a temporary one)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="so small that it runs anywhere")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.tokens, options.batches, options.shapes = ["quick"], [200, 400], 4, 2
    return options


def keep(rows: Sequence[Row], faults: Sequence[Row], options: argparse.Namespace) -> None:
    if options.json:
        kept, slower = fastest(rows)
        head = {**setting(torch.device(options.device)), "rounds": options.rounds, "batches": options.batches}
        write_json(options.json, {**head, "rows": kept, "slower_ways": slower, "faults": faults})


def main() -> None:
    options = parse()
    rows: list[Row] = []
    faults: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes:
            logs = (options.logs or Path(folder)) / size
            logs.mkdir(parents=True, exist_ok=True)
            found: tuple[list[Row], list[Row]] = ([], [])
            for found in measure(size, options, logs):
                keep(rows + found[0], faults + found[1], options)  # keep what is measured, even if the rest fails
            rows, faults = rows + found[0], faults + found[1]
    for fault in faults:
        print(f"out: {fault['system']}, {fault['mode']} {fault['way']}, {fault['budgets']}: {fault['fault']}")
    kept, slower = fastest(rows)
    for line in [*(table(slower) if slower else []), *table(kept)]:
        print(line)
    if not any(row["system"] == OURS for row in rows):
        sys.exit("this project was not measured")


if __name__ == "__main__":
    main()
