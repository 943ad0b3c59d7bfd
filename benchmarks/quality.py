"""How good a recipe gets on real data: `manyheads train`, then `manyheads evaluate` on a test set.

    python -m benchmarks.quality cmudict
    python -m benchmarks.quality tatoeba --set train.epochs=20
    python -m benchmarks.quality multi30k --data FOLDER

CMUdict and Tatoeba are bundled; Multi30k is not: FOLDER holds train.en.gz, train.de.gz, val.en.gz and so on. The result
file has both commands.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

BUNDLED = Path("src/manyheads/bundled")
RESULTS = Path("benchmarks/results")


@dataclass(frozen=True)
class Case:
    recipe: str
    train: list[str]
    dev: list[str]
    test: list[str]


def tsv(folder: str, recipe: str) -> Case:
    return Case(recipe, *([f"{BUNDLED / folder / part}.tsv.gz"] for part in ("train", "dev", "test")))


def multi30k(folder: Path) -> Case:
    parts = ("train", "val", "test_2016_flickr")
    return Case("multi30k", *([f"{folder / part}.{side}.gz" for side in ("en", "de")] for part in parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=["cmudict", "tatoeba", "multi30k"])
    parser.add_argument("--data", type=Path, default=Path("multi30k"))
    parser.add_argument("--recipe")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--name", help="of the run and the result")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    known = {"cmudict": ("cmudict", "pronounce"), "tatoeba": ("tatoeba", "tatoeba")}
    case = tsv(*known[options.case]) if options.case in known else multi30k(options.data)
    measure(options, case)


def measure(options: argparse.Namespace, case: Case) -> None:
    name = options.name or options.case
    folder = options.runs / name
    settings = [word for setting in options.set for word in ("--set", setting)]
    train = [
        "train",
        options.recipe or case.recipe,
        "--train",
        *case.train,
        "--dev",
        *case.dev,
        "--out",
        str(folder),
        *settings,
    ]
    evaluate = ["evaluate", str(folder), "--data", *case.test, "--json"]
    began = time.monotonic()
    manyheads(*train, "--device", options.device)
    wall = time.monotonic() - began
    test = json.loads(manyheads(*evaluate, "--device", options.device, capture=True))
    summary = json.loads((folder / "summary.json").read_text())
    start = next(e for e in map(json.loads, (folder / "log.jsonl").open()) if e["event"] == "start")
    result = {
        "case": options.case,
        "commands": [shlex.join(["manyheads", *words]) for words in (train, evaluate)],
        "machine": start["machine"], "torch": start["torch"], "parameters": start["parameters"],
        "steps": summary["step"], "best_step": summary["best_step"],
        "training_seconds": summary["seconds"], "wall_seconds": round(wall, 1),
        "dev": summary["metrics"], "test": test,
    }  # fmt: skip
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"quality_{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: result[key] for key in ("steps", "training_seconds", "dev")}), json.dumps(test))


def manyheads(*words: str, capture: bool = False) -> str:
    command = [sys.executable, "-m", "manyheads", *words]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE if capture else None).stdout


if __name__ == "__main__":
    main()
