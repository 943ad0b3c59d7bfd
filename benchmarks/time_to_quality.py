"""How good a model is after 30 and after 300 seconds of training: Multi30k English → German, several seeds.

    python -m benchmarks.time_to_quality --data FOLDER --recipe30 NAME --recipe300 NAME --json FILE
    python -m benchmarks.time_to_quality --data FOLDER --parallel 3
    python -m benchmarks.time_to_quality --data FOLDER --budgets 300 --teachers 3
    python -m benchmarks.time_to_quality --data FOLDER --budgets 300 --judges 1
    python -m benchmarks.time_to_quality --seeds --earlier A.json B.json --json FILE
    python -m benchmarks.time_to_quality --device cpu --quick

    --parallel   runs seeds at the same time: seconds are then upper bounds
    --teachers   measures a student of models that are trained first, in the same time
    --judges     measures a model with judges that write backwards, trained in the same time
    --earlier    puts what several calls have found into one file
    --quick      runs all code, with figures that mean nothing

FOLDER holds Multi30k (train.en.gz, train.de.gz, val.…, test_2016_flickr.…), which is not bundled. Each run is
`manyheads train`, then `manyheads evaluate` on test_2016_flickr with beam 5. The seconds are those of the training
loop, as the run itself counts them: they do not include reading the data, compiling and scoring; compiling is given
separately. Those of teachers and judges are added. A model with judges is also measured by itself (`alone`, with its
own seconds).
"""

import argparse
import gzip
import json
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.quality import Case, multi30k, tsv
from benchmarks.setting import setting, write_json
from manyheads.machine import choose_device

BUDGETS = (30, 300)
QUICK = ["train.steps=6", "data.vocabulary=300", "train.tokens=400", "train.validate_lines=4"]
Row = dict[str, Any]


def few_pairs(place: Path) -> Case:
    """A few of the bundled pairs, enough to see that everything runs."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(tsv("tatoeba", "tiny").dev[0], "rb") as file:
        place.write_bytes(b"".join(islice(file, 60)))
    return Case("tiny", *([str(place)] for _ in range(3)))


def to_train(case: Case, recipe: str, changes: Sequence[str], seed: int, device: str, out: Path) -> list[str]:
    settings = [word for change in (f"train.seed={seed}", *changes) for word in ("--set", change)]
    files = ["--train", *case.train, "--dev", *case.dev, "--out", str(out)]
    return ["train", recipe, *files, *settings, "--device", device]


def to_evaluate(case: Case, options: argparse.Namespace, out: Path, judges: Sequence[Path] = ()) -> list[str]:
    judged = ["--judge", *map(str, judges)] if judges else []
    return ["evaluate", str(out), *judged, "--data", *case.test, "--beam", "5", "--json", "--device", options.device]


def others(out: Path, what: str, count: int) -> list[Path]:
    """Folders beside that of a run, for the other models that belong to it."""
    return [out.with_name(f"{out.name}-{what}{n}") for n in range(1, count + 1)]


def trainings(
    case: Case, recipe: str, changes: Sequence[str], seed: int, options: argparse.Namespace, out: Path
) -> dict[Path, list[str]]:
    """Training commands by folder: judges and teachers, each with a seed of its own, and last the measured model."""
    judges, teachers = others(out, "judge", options.judges), others(out, "teacher", options.teachers)
    backwards = [*options.judge_set, "data.backwards=true"]
    how = {
        place: to_train(case, options.judge_recipe, backwards, 10 * seed + n, options.device, place)
        for n, place in enumerate(judges, 1)
    } | {
        place: to_train(case, options.teacher_recipe, options.teacher_set, 100 * seed + n, options.device, place)
        for n, place in enumerate(teachers, 1)
    }
    taught = ["--teacher", *map(str, teachers)] if teachers else []
    return {**how, out: [*to_train(case, recipe, changes, seed, options.device, out), *taught]}


def run(case: Case, budget: int, recipe: str, changes: Sequence[str], seed: int, options: argparse.Namespace) -> Row:
    """Train, evaluate and return a row. A run that fails gives a row, too."""
    out = options.runs / f"{budget}s-seed{seed}"
    train, judges = trainings(case, recipe, changes, seed, options, out), others(out, "judge", options.judges)
    evaluate, alone = to_evaluate(case, options, out, judges), to_evaluate(case, options, out)
    known = {
        "system": "manyheads", "seed": seed, "budget_s": budget, "recipe": recipe, "teachers": options.teachers, "judges": options.judges, "parallel": options.parallel,
        "commands": [shlex.join(["manyheads", *words]) for words in (*train.values(), *([alone] if judges else []), evaluate)],
    }  # fmt: skip
    try:
        found = {place: trained(words, place) for place, words in train.items()}
        row = {**known, **figures(together(list(found.values())), json.loads(manyheads(evaluate)), budget)}
        if judges:
            own = together([one for place, one in found.items() if place not in judges])
            row["alone"] = figures(own, json.loads(manyheads(alone)), budget)
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        row = {**known, "fault": fault_of(error)}
    print(line(row), flush=True)
    return row


def trained(words: Sequence[str], place: Path) -> Row:
    shutil.rmtree(place, ignore_errors=True)
    manyheads(words)
    return json.loads((place / "summary.json").read_text())


def together(summaries: Sequence[Row]) -> Row:
    """The summary of the last, with the time of all."""
    return {**summaries[-1], **spent(summaries)}


def spent(summaries: Sequence[Row]) -> Row:
    return {key: round(sum(one.get(key, 0.0) for one in summaries), 1) for key in ("seconds", "compile_seconds")}


def figures(summary: Row, test: Row, budget: int) -> Row:
    return {
        "seconds": summary["seconds"], "within_budget": summary["seconds"] <= budget,
        "compile_seconds": summary.get("compile_seconds", 0.0), "steps": summary["step"],
        "best_step": summary["best_step"], "dev": summary["metrics"], "bleu": test["bleu"], "chrf": test["chrf"], "signature": test["signature"],
    }  # fmt: skip


def manyheads(words: Sequence[str]) -> str:
    done = subprocess.run([sys.executable, "-m", "manyheads", *words], check=True, text=True, capture_output=True)
    return done.stdout


def fault_of(error: Exception) -> str:
    said = (getattr(error, "stderr", "") or str(error)).strip()
    return said[-600:]


def line(row: Row) -> str:
    name = f"{row['budget_s']:4} s  seed {row['seed']}"
    if "fault" in row:
        return f"{name}  failed: {row['fault']}"
    late = "" if row["within_budget"] else "  over its time"
    alone = f"  (alone {row['alone']['bleu']:.2f}, {row['alone']['seconds']:.1f} s)" if "alone" in row else ""
    return f"{name}  BLEU {row['bleu']:6.2f}  {row['seconds']:6.1f} s + {row['compile_seconds']:.1f} s of compiling{late}{alone}"


def means(rows: Sequence[Row]) -> Iterator[Row]:
    """Means over the runs of each budget that gave a figure, and over those within it; the others are counted."""
    for budget in sorted({row["budget_s"] for row in rows}):
        all_of_them = [row for row in rows if row["budget_s"] == budget]
        some = [row for row in all_of_them if "bleu" in row]
        if some:
            scores = [row["bleu"] for row in some]
            in_time = [row["bleu"] for row in some if row["within_budget"]]
            yield {
                "budget_s": budget, "runs": len(some), "failed": len(all_of_them) - len(some),
                "over_budget": sum(not row["within_budget"] for row in some),
                "bleu": round(statistics.mean(scores), 2),
                "bleu_within_budget": round(statistics.mean(in_time), 2) if in_time else None, "lowest": min(scores), "highest": max(scores),
                "seconds": round(statistics.mean(row["seconds"] for row in some), 1),
                "compile_seconds": round(statistics.mean(row["compile_seconds"] for row in some), 1),
                **means_alone([row["alone"] for row in some if "alone" in row]),
            }  # fmt: skip


def means_alone(rows: Sequence[Row]) -> Row:
    """Means of models with judges, measured without them."""
    return {f"{key}_alone": round(statistics.mean(row[key] for row in rows), 2) for key in ("bleu", "seconds") if rows}


def keep(rows: Sequence[Row], case: Case, options: argparse.Namespace) -> None:
    if options.json:
        test = {"test": [Path(name).name for name in case.test], "beam": 5}
        write_json(
            options.json, {**setting(choose_device(options.device)), **test, "rows": rows, "means": list(means(rows))}
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("multi30k"))
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--budgets", nargs="+", type=int, choices=BUDGETS, default=list(BUDGETS))
    for budget in BUDGETS:
        parser.add_argument(f"--recipe{budget}", default="multi30k")
        parser.add_argument(f"--set{budget}", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--teachers", type=int, default=0, help="models that are trained first, for what is measured to learn from"
    )
    parser.add_argument("--judges", type=int, default=0, help="models that write backwards, and have a say in the end")
    for who in ("teacher", "judge"):
        parser.add_argument(f"--{who}-recipe", default="small")
        parser.add_argument(f"--{who}-set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--earlier", nargs="*", type=Path, default=[], help="files of earlier runs, to be counted too")
    parser.add_argument("--parallel", type=int, default=1, help="runs at a time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=Path, default=Path("runs/time_to_quality"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="six steps on a few bundled pairs")
    options = parser.parse_args()
    if options.quick:
        options.recipe30 = options.recipe300 = options.teacher_recipe = options.judge_recipe = "tiny"
        options.set30 = options.set300 = options.teacher_set = options.judge_set = QUICK
        options.seeds = options.seeds[:2]
    return options


def main() -> None:
    options = parse()
    case = multi30k(options.data)
    if options.quick:
        case = few_pairs(options.runs / "few.tsv")
    work = [
        (case, budget, getattr(options, f"recipe{budget}"), getattr(options, f"set{budget}"), seed, options)
        for budget in options.budgets
        for seed in options.seeds
    ]
    rows = [row for file in options.earlier for row in json.loads(file.read_text())["rows"]]
    with ThreadPoolExecutor(options.parallel) as threads:
        for row in threads.map(lambda one: run(*one), work):
            rows.append(row)
            keep(rows, case, options)  # keep what is measured, even if the rest fails
    keep(rows, case, options)
    found = list(means(rows))
    for mean in found:
        within = mean["bleu_within_budget"]
        print(
            f"{mean['budget_s']:4} s: BLEU {mean['bleu']:.2f} ({mean['lowest']:.2f} to {mean['highest']:.2f}, {mean['runs']} runs), "
            f"within the time {'none' if within is None else f'{within:.2f}'}, "
            f"{mean['seconds']} s + {mean['compile_seconds']} s of compiling; failed {mean['failed']}, over time {mean['over_budget']}"
        )
    if any("fault" in row for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
