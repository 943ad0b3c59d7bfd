"""A teacher that writes token by token, what it has translated, and students that write all at once: the runs that benchmarks/at_once.py measures.

    python -m benchmarks.students teacher  --corpus multi30k --data FOLDER
    python -m benchmarks.students distil   --corpus multi30k --data FOLDER
    python -m benchmarks.students students --corpus multi30k --data FOLDER --only masks graph --seconds 500
    python -m benchmarks.students measure  --corpus multi30k --data FOLDER --json benchmarks/results/at_once_multi30k_h200.json

Each is a few commands of `manyheads`, which are shown; all students learn at the same time. After --seconds they are told to save and stop, and the same
command goes on with them. What stands behind -- is told to benchmarks.at_once. FOLDER holds Multi30k (train.en.gz, train.de.gz, val.…,
test_2016_flickr.…); Tatoeba is bundled.
"""

import argparse
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.quality import Case, multi30k, tsv

NAMES = {"multi30k": "Multi30k en→de", "tatoeba": "Tatoeba de→en"}


@dataclass(frozen=True)
class Student:
    """
    distilled   it learns from what the teacher has translated, not from the pairs as they are
    begins      as its teacher, or anew
    """

    recipe: str
    distilled: bool = False
    begins: bool = False


STUDENTS = {
    "masks": Student("parallel/mask"),
    "masks, distilled": Student("parallel/mask", distilled=True),
    "masks, distilled, from the teacher": Student("parallel/mask", distilled=True, begins=True),
    "end": Student("parallel/end"),
    "end, distilled, from the teacher": Student("parallel/end", distilled=True, begins=True),
    "graph": Student("parallel/graph"),
    "graph, distilled": Student("parallel/graph", distilled=True),
    "graph, from the teacher": Student("parallel/graph", begins=True),
    "graph, distilled, from the teacher": Student("parallel/graph", distilled=True, begins=True),
}


@dataclass(frozen=True)
class Place:
    """Where everything is."""

    case: Case
    runs: Path

    @property
    def teacher(self) -> Path:
        return self.runs / "teacher"

    @property
    def distilled(self) -> Path:
        return self.runs / "distilled.tsv"

    def student(self, name: str) -> Path:
        return self.runs / name.replace(",", "").replace(" ", "-")


def main() -> None:
    options = parse()
    case = multi30k(options.data) if options.corpus == "multi30k" else tsv("tatoeba", "tatoeba")
    place = Place(case, options.runs / options.corpus)
    match options.step:
        case "teacher":
            together([teach(place, options)], place.runs, options.seconds)
        case "distil":
            if place.distilled.exists():  # it appears when all of it is there
                print(f"{place.distilled} is there")
            else:
                together([distil(place, options)], place.runs, options.seconds)
        case "students":
            together([study(name, place, options) for name in options.only], place.runs, options.seconds)
        case "measure":
            subprocess.run([sys.executable, *measure(place, options)], check=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["teacher", "distil", "students", "measure"])
    parser.add_argument("--corpus", choices=NAMES, required=True)
    parser.add_argument("--data", type=Path, default=Path("multi30k"))
    parser.add_argument("--only", nargs="+", choices=STUDENTS, default=list(STUDENTS), metavar="STUDENT")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="until all are told to stop")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=Path, default=Path("runs/at_once"))
    parser.add_argument("--json", type=Path)
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.more = words[end + 1 :]  # for benchmarks.at_once
    return options


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────────────


def teach(place: Place, options: argparse.Namespace) -> list[str]:
    return train(place.case.recipe, place.case.train, place.teacher, place, options)


def distil(place: Place, options: argparse.Namespace) -> list[str]:
    files = ["data", "distill", str(place.teacher), *place.case.train]
    return [*files, "--out", str(place.distilled), "--resume", "--device", options.device]


def study(name: str, place: Place, options: argparse.Namespace) -> list[str]:
    student = STUDENTS[name]
    data = [str(place.distilled)] if student.distilled else place.case.train
    begins = ["--from", str(place.teacher)] if student.begins else []
    return [*train(student.recipe, data, place.student(name), place, options), *begins]


def train(recipe: str, data: Sequence[str], out: Path, place: Place, options: argparse.Namespace) -> list[str]:
    settings = [word for setting in options.set for word in ("--set", setting)]
    return [
        "train", recipe, "--train", *data, "--dev", *place.case.dev, "--out", str(out), "--resume",
        "--device", options.device, *settings,
    ]  # fmt: skip


def measure(place: Place, options: argparse.Namespace) -> list[str]:
    there = [name for name in options.only if (place.student(name) / "model.safetensors").exists()]
    return [
        "-m", "benchmarks.at_once", "--corpus", NAMES[options.corpus], "--data", *place.case.test,
        "--token-by-token", str(place.teacher), "--at-once", *(f"{name}={place.student(name)}" for name in there),
        "--device", options.device, *(["--json", str(options.json)] if options.json else []), *options.more,
    ]  # fmt: skip


# ── at the same time ────────────────────────────────────────────────────────────────────────────────────────────────


def together(commands: Sequence[list[str]], logs: Path, seconds: float) -> None:
    """All of them, and what they said last. One that fails does not stop the others."""
    logs.mkdir(parents=True, exist_ok=True)
    began, running = time.monotonic(), []
    for words in commands:
        print(shlex.join(["manyheads", *words]), flush=True)
        log = logs / f"{name_of(words)}.log"
        with log.open("w") as file:
            running.append(
                (words, log, subprocess.Popen([sys.executable, "-m", "manyheads", *words], stderr=file, stdout=file))
            )
    for words, log, process in running:
        try:
            process.wait(max(0.0, seconds - (time.monotonic() - began)))
        except subprocess.TimeoutExpired:
            for *_, other in running:
                other.send_signal(signal.SIGTERM)
            process.wait()
        print(
            json.dumps(
                {"command": words[:2], "status": process.returncode, "said": last_lines(log)}, ensure_ascii=False
            ),
            flush=True,
        )


def name_of(words: Sequence[str]) -> str:
    """What it makes: several may work on one corpus, at the same time and by several calls."""
    made = words[words.index("--out") + 1] if "--out" in words else "-".join(words)
    return Path(made).name


def last_lines(log: Path) -> list[str]:
    return [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()][-2:]


if __name__ == "__main__":
    main()
