"""A teacher that writes token by token, and students that write all at once: the runs that benchmarks.at_once measures.

    python -m benchmarks.students learn   --corpora multi30k tatoeba --data FOLDER --seconds 500
    python -m benchmarks.students measure --corpora multi30k --data FOLDER --json benchmarks/results/at_once_multi30k_h200.json
    python -m benchmarks.students learn measure --corpora tatoeba --json benchmarks/results/at_once_tatoeba_h200.json

The runs are commands of `manyheads`, which are printed; several run at the same time. After --seconds they are told to
save and stop, and the same call resumes them. Trained models are kept with 8-bit weights, in kept/ beside the runs:
students learn from the teacher as it was kept, or from its translations, and kept models are measured. A kept model is
not trained again, wherever it came from. Arguments after -- are passed to benchmarks.at_once. FOLDER holds Multi30k
(train.en.gz, train.de.gz, val.…, test_2016_flickr.…); Tatoeba is bundled, and so is its teacher.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.jobs import Job, work
from benchmarks.kept import keep
from benchmarks.quality import Case, multi30k, tsv

NAMES = {"multi30k": "Multi30k en→de", "tatoeba": "Tatoeba de→en"}
TEACHER = "teacher"
ALL = ("train.patience=0", "train.validate_every=2000")
SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "multi30k": {
        "small": ("train.epochs=94", "train.patience=0"),
        "parallel/mask": ("train.epochs=120", *ALL),
        "parallel/end": ("train.epochs=100", *ALL),
        "parallel/graph": ("train.tokens=16384", "train.epochs=60", *ALL),
    },
    "tatoeba": {
        "parallel/mask": ("train.tokens=16384", "train.epochs=100", *ALL),
        "parallel/end": ("train.tokens=16384", "train.epochs=80", *ALL),
        "parallel/graph": ("train.tokens=32768", "train.epochs=70", *ALL),
    },
}
"""By corpus and recipe: students of the original pairs learn for as long as students of a teacher's translations."""


@dataclass(frozen=True)
class Student:
    """A student.

    distilled   learns from the teacher's translations instead of the original targets
    begins      starts as its teacher instead of anew
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
    """Where everything about a corpus is."""

    corpus: str
    case: Case
    runs: Path

    @property
    def distilled(self) -> Path:
        return self.runs / "distilled.tsv"

    @property
    def commands(self) -> Path:
        return self.runs / "commands.txt"

    @property
    def teacher(self) -> Path:
        return self.kept(TEACHER)

    def run(self, name: str) -> Path:
        return self.runs / plain(name)

    def kept(self, name: str) -> Path:
        return self.runs / "kept" / plain(name)


def plain(name: str) -> str:
    return name.replace(",", "").replace(" ", "-")


def main() -> None:
    options = parse()
    places = [place_of(corpus, options) for corpus in options.corpora]
    if "learn" in options.steps:
        became = learn(places, options)
        print(*(f"{name}: {what}" for name, what in became.items()), sep="\n", flush=True)
        if "failed" in became.values():
            sys.exit(1)
    if "measure" in options.steps:
        for place in places:
            subprocess.run([sys.executable, *measure(place, options)], check=True)


def learn(places: Sequence[Place], options: argparse.Namespace) -> dict[str, str]:
    jobs = [job for place in places for job in jobs_of(place, options)]
    done = {named(place, name) for place in places for name in (TEACHER, *options.only) if place.kept(name).exists()}
    done |= {
        named(place, "distil") for place in places if place.distilled.exists()
    }  # the file appears when it is complete
    return work(jobs, options.runs / "logs", seconds=options.seconds, most=options.most, done=done)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="+", choices=["learn", "measure"])
    parser.add_argument("--corpora", nargs="+", choices=NAMES, required=True)
    parser.add_argument("--data", type=Path, default=Path("multi30k"))
    parser.add_argument("--only", nargs="+", choices=STUDENTS, default=list(STUDENTS), metavar="STUDENT")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="until all are told to stop")
    parser.add_argument("--most", type=int, default=8, help="that run at the same time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=Path, default=Path("runs/at_once"))
    parser.add_argument("--json", type=Path)
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.more = words[end + 1 :]  # for benchmarks.at_once
    if options.json and len(options.corpora) > 1:
        parser.error("--json is for one corpus")
    return options


def place_of(corpus: str, options: argparse.Namespace) -> Place:
    case = replace(multi30k(options.data), recipe="small") if corpus == "multi30k" else tsv("tatoeba", "tatoeba")
    return Place(corpus, case, options.runs / corpus)


# ── what is to be done ──────────────────────────────────────────────────────────────────────────────────────────────


def jobs_of(place: Place, options: argparse.Namespace) -> Iterator[Job]:
    """The teacher first, then students that wait for it, whose way is the longest, then the others."""
    if place.corpus == "tatoeba":
        keep_bundled(place)
    yield Job(named(place, TEACHER), teach(place, options), ready=partial(keep, place.run(TEACHER), place.teacher))
    students = [name for name in options.only if STUDENTS[name].distilled or STUDENTS[name].begins]
    if any(STUDENTS[name].distilled for name in students):
        yield Job(named(place, "distil"), distil(place, options), (named(place, TEACHER),))
    for name in (*students, *(name for name in options.only if name not in students)):
        needs = [TEACHER] * STUDENTS[name].begins + ["distil"] * STUDENTS[name].distilled
        after = tuple(named(place, one) for one in needs)
        yield Job(
            named(place, name), study(name, place, options), after, partial(keep, place.run(name), place.kept(name))
        )


def named(place: Place, name: str) -> str:
    return f"{place.corpus}/{name}"


def bundled(job: Job, place: Place) -> bool:
    """The teacher that comes with the package need not be trained."""
    return place.corpus == "tatoeba" and job.name == named(place, TEACHER)


def teach(place: Place, options: argparse.Namespace) -> list[str]:
    return train(place.case.recipe, place.case.train, place.run(TEACHER), place, options)


def distil(place: Place, options: argparse.Namespace) -> list[str]:
    files = ["data", "distill", str(place.teacher), *place.case.train]
    return [*files, "--out", str(place.distilled), "--resume", "--device", options.device]


def study(name: str, place: Place, options: argparse.Namespace) -> list[str]:
    student = STUDENTS[name]
    data = [str(place.distilled)] if student.distilled else place.case.train
    begins = ["--from", str(place.teacher)] if student.begins else []
    return [*train(student.recipe, data, place.run(name), place, options), *begins]


def train(recipe: str, data: list[str], out: Path, place: Place, options: argparse.Namespace) -> list[str]:
    changes = [*SETTINGS[place.corpus].get(recipe, ()), *options.set]
    settings = [word for change in changes for word in ("--set", change)]
    return [
        "train", recipe, "--train", *data, "--dev", *place.case.dev, "--out", str(out), "--resume",
        "--device", options.device, *settings,
    ]  # fmt: skip


def measure(place: Place, options: argparse.Namespace) -> list[str]:
    there = [name for name in options.only if place.kept(name).exists()]
    options = argparse.Namespace(**vars(options) | {"only": there})
    commands = [job.command for job in jobs_of(place, options) if not bundled(job, place)]
    place.commands.write_text("".join(f"{command}\n" for command in commands))
    return [
        "-m", "benchmarks.at_once", "--corpus", NAMES[place.corpus], "--data", *place.case.test,
        "--token-by-token", str(place.teacher), "--at-once", *(f"{name}={place.kept(name)}" for name in there),
        "--device", options.device, *(["--json", str(options.json)] if options.json else []),
        "--trained", str(place.commands), *options.more,
    ]  # fmt: skip


# ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────────────


def keep_bundled(place: Place) -> None:
    """Keep the bundled model as a teacher, which must read lines uncut, as its students do."""
    from manyheads import Translator

    if place.teacher.exists():
        return
    teacher = Translator.load("de-en", "cpu", "fp32")
    teacher.recipe = replace(teacher.recipe, decode=replace(teacher.recipe.decode, max_source=None))
    place.teacher.parent.mkdir(parents=True, exist_ok=True)
    teacher.save(place.teacher, "int8")


if __name__ == "__main__":
    main()
