"""Pronouncers that write forwards and backwards: alone, as an ensemble, and judging each other.

    python -m benchmarks.both_ways learn   --each 3
    python -m benchmarks.both_ways measure --each 3 --json benchmarks/results/both_ways_cmudict.json
    python -m benchmarks.both_ways learn measure --each 2 --pieces 1 --recipe pronounce-tiny --set train.epochs=14
    python -m benchmarks.both_ways learn measure --each 2 --device cpu --quick    runs all code; figures mean nothing

The data is the bundled CMU dictionary; figures are wrong words and phones, in percent, on its development and test set.
--each models are trained for each direction, and --pieces more that read pieces of words instead of letters: a judge need
not cut words as those do that write. Several are trained at a time; after --seconds they are told to save and stop, and
the same call resumes them. Each training is a command of `manyheads`; the result file lists all of them. Trained models
are kept with 8-bit weights, in kept/ beside the runs, and measured as they were kept, possibly on another machine.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import digits
from typing import Any

from benchmarks.jobs import Job, work
from benchmarks.kept import keep, summary_of
from benchmarks.quality import Case, tsv
from benchmarks.setting import setting, write_json
from benchmarks.time_to_quality import manyheads, spent
from manyheads.machine import choose_device

FORTH, BACK, FORTH_PIECES, BACK_PIECES = "forth", "back", "forth-pieces", "back-pieces"
BACKWARDS, READS_PIECES = "data.backwards=true", ("data.tokenizer=bpe", "data.vocabulary=400")
WAYS = {FORTH: (), BACK: (BACKWARDS,), FORTH_PIECES: READS_PIECES, BACK_PIECES: (*READS_PIECES, BACKWARDS)}
"""What differs from the recipe."""
PARTS = ("dev", "test")
QUICK = ("train.steps=4", "train.tokens=400", "train.validate_lines=4", "model.width=16", "model.layers=1")


@dataclass(frozen=True)
class System:
    """Models that search as an ensemble, and models that judge what it has found."""

    name: str
    writers: tuple[str, ...]
    judges: tuple[str, ...] = ()


def main() -> None:
    options = parse()
    jobs = list(jobs_of(options))
    if "learn" in options.steps:
        learn(jobs, options)
    if "measure" in options.steps:
        measure_all([job.command for job in jobs], options)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="+", choices=["learn", "measure"])
    parser.add_argument("--each", type=int, default=3, help="models for each direction")
    parser.add_argument(
        "--pieces", type=int, default=0, help="more models for each direction, which read pieces of words"
    )
    parser.add_argument("--recipe", default="pronounce")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--beam", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="until all are told to stop")
    parser.add_argument("--most", type=int, default=3, help="that run at the same time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="fp32", help="that is measured in")
    parser.add_argument("--runs", type=Path, default=Path("runs/both_ways"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="four steps of a tiny model, a few words")
    options = parser.parse_args()
    if options.quick:
        options.set = [*QUICK, *options.set]
    return options


# ── who learns what ─────────────────────────────────────────────────────────────────────────────────────────────────


def learn(jobs: Sequence[Job], options: argparse.Namespace) -> None:
    done = {job.name for job in jobs if kept(job.name, options).exists()}
    became = work(jobs, options.runs / "logs", seconds=options.seconds, most=options.most, done=done)
    if any(what != "done" for what in became.values()):
        sys.exit(", ".join(f"{name}: {what}" for name, what in became.items()))


def jobs_of(options: argparse.Namespace) -> Iterator[Job]:
    case = tsv("cmudict", options.recipe)
    counts = {FORTH: options.each, BACK: options.each, FORTH_PIECES: options.pieces, BACK_PIECES: options.pieces}
    for name in (f"{way}{n}" for n in range(1, max(counts.values()) + 1) for way in counts if n <= counts[way]):
        yield Job(name, to_train(name, case, options), ready=partial(keep, options.runs / name, kept(name, options)))


def of(way: str, count: int) -> tuple[str, ...]:
    """The names of the models of a way: forth1, forth2, …; the number is the seed."""
    return tuple(f"{way}{n}" for n in range(1, count + 1))


def kept(name: str, options: argparse.Namespace) -> Path:
    return options.runs / "kept" / name


def to_train(name: str, case: Case, options: argparse.Namespace) -> list[str]:
    way = name.rstrip(digits)
    changes = ["train.validate_every=100000", f"train.seed={name.removeprefix(way)}", *WAYS[way], *options.set]
    settings = [word for change in changes for word in ("--set", change)]
    files = ["--train", *case.train, "--dev", *case.dev, "--out", str(options.runs / name)]
    return ["train", options.recipe, *files, "--resume", "--device", options.device, *settings]


# ── how good ────────────────────────────────────────────────────────────────────────────────────────────────────────


def systems_of(each: int, pieces: int = 0) -> Iterator[System]:
    forth, back = of(FORTH, each), of(BACK, each)
    yield from (System(f"forwards, seed {n}", (name,)) for n, name in enumerate(forth, 1))
    yield from (System(f"backwards, seed {n}", (name,)) for n, name in enumerate(back, 1))
    if each > 1:
        yield System(f"{each} forwards, as one", forth)
        yield System(f"{each} backwards, as one", back)
    for n in range(1, each + 1):
        yield System(f"{n} each way", forth[:n], back[:n])
    yield from systems_with_pieces(forth, back, of(FORTH_PIECES, pieces), of(BACK_PIECES, pieces))


def systems_with_pieces(
    forth: Sequence[str], back: Sequence[str], forth_pieces: Sequence[str], back_pieces: Sequence[str]
) -> Iterator[System]:
    yield from (System(f"forwards, reads pieces, seed {n}", (name,)) for n, name in enumerate(forth_pieces, 1))
    yield from (System(f"backwards, reads pieces, seed {n}", (name,)) for n, name in enumerate(back_pieces, 1))
    each, pieces = len(forth), len(forth_pieces)
    sizes = {(n, n) for n in range(1, min(each, pieces) + 1)} | ({(each, pieces)} if pieces else set())
    for n, more in sorted(sizes):
        judges = (*back[:n], *forth_pieces[:more], *back_pieces[:more])
        yield System(f"{n} each way, {more} each way of pieces", tuple(forth[:n]), judges)


def measure_all(trained: Sequence[str], options: argparse.Namespace) -> None:
    case, rows = tsv("cmudict", options.recipe), []
    with ThreadPoolExecutor(options.most) as threads:
        for row in threads.map(partial(measure, case=case, options=options), systems_of(options.each, options.pieces)):
            rows.append(row)
            show([row], head=len(rows) == 1)
            write(rows, trained, options)  # keep what is measured, even if the rest fails


def write(rows: Sequence[dict[str, Any]], trained: Sequence[str], options: argparse.Namespace) -> None:
    if options.json:
        head = {**setting(choose_device(options.device)), "beam": options.beam, "trained": trained}
        write_json(options.json, {**head, "rows": rows})


def measure(system: System, case: Case, options: argparse.Namespace) -> dict[str, Any]:
    commands = {part: to_evaluate(system, getattr(case, part), options) for part in PARTS}
    found = {part: json.loads(manyheads(words)) for part, words in commands.items()}
    rates = {part: {key: one[key] for key in ("wer", "per", "lines", "seconds")} for part, one in found.items()}
    trained = [json.loads(summary_of(kept(name, options)).read_text()) for name in all_of(system)]
    told = {part: shlex.join(["manyheads", *words]) for part, words in commands.items()}
    return {"system": system.name, "training": spent(trained), **rates, "commands": told}


def all_of(system: System) -> Sequence[str]:
    return (*system.writers, *system.judges)


def to_evaluate(system: System, data: Sequence[str], options: argparse.Namespace) -> list[str]:
    first, *others = (str(kept(name, options)) for name in system.writers)
    together = ["--with", *others] if others else []
    judged = ["--judge", *(str(kept(name, options)) for name in system.judges)] if system.judges else []
    how = ["--beam", str(options.beam), "--json", "--device", options.device, "--precision", options.precision]
    return ["evaluate", first, *together, *judged, "--data", *few(data, options), *how]


def few(data: Sequence[str], options: argparse.Namespace) -> Sequence[str]:
    if not options.quick:
        return data
    place = options.runs / "few.tsv"
    place.write_text("CAT\tK AE T\nDOG\tD AO G\n")
    return [str(place)]


def show(rows: Sequence[dict[str, Any]], head: bool = True) -> None:
    if head:
        print(f"{'':36}{'dev WER':>9}{'PER':>7}{'test WER':>10}{'PER':>7}")
    for row in rows:
        dev, test = row["dev"], row["test"]
        print(f"{row['system']:36}{dev['wer']:9.2f}{dev['per']:7.2f}{test['wer']:10.2f}{test['per']:7.2f}", flush=True)


if __name__ == "__main__":
    main()
