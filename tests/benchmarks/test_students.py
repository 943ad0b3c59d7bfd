"""The runs behind a comparison: which commands they are, and who waits for whom."""

import argparse
from pathlib import Path

import pytest
from benchmarks.kept import keep, summary_of
from benchmarks.quality import Case
from benchmarks.students import STUDENTS, TEACHER, Place, distil, jobs_of, measure, study, teach

from manyheads import Translator
from manyheads.modelfolder import save_model

CASE = Case("small", ["a.en", "a.de"], ["b.en", "b.de"], ["c.en", "c.de"])


@pytest.fixture
def place(tmp_path):
    return Place("multi30k", CASE, tmp_path / "runs")


@pytest.fixture
def options():
    return argparse.Namespace(
        set=["train.epochs=3"], device="cpu", only=list(STUDENTS), json=None, more=["--rounds", "1"]
    )


def test_a_student_learns_from_what_it_is_told_and_begins_as_it_is_told(place, options):
    assert " ".join(teach(place, options)) == (
        f"train small --train a.en a.de --dev b.en b.de --out {place.runs}/teacher --resume --device cpu "
        "--set train.epochs=94 --set train.patience=0 --set train.epochs=3"
    )
    assert distil(place, options)[:5] == ["data", "distill", f"{place.runs}/kept/teacher", "a.en", "a.de"]
    raw, taught = (study(name, place, options) for name in ("graph", "masks, distilled, from the teacher"))
    assert raw[:5] == ["train", "parallel/graph", "--train", "a.en", "a.de"]
    assert "--from" not in raw
    assert taught[:4] == ["train", "parallel/mask", "--train", str(place.distilled)]
    assert taught[-2:] == ["--from", str(place.teacher)]
    assert len({str(place.run(name)) for name in STUDENTS}) == len(STUDENTS) == 9


def test_nobody_begins_before_what_it_needs(place, options):
    jobs = {job.name: job for job in jobs_of(place, options)}
    assert list(jobs)[:2] == ["multi30k/teacher", "multi30k/distil"]
    assert jobs["multi30k/distil"].needs == ("multi30k/teacher",)
    assert jobs["multi30k/graph"].needs == ()
    assert jobs["multi30k/graph, from the teacher"].needs == ("multi30k/teacher",)
    assert jobs["multi30k/graph, distilled"].needs == ("multi30k/distil",)
    assert jobs["multi30k/graph, distilled, from the teacher"].needs == ("multi30k/teacher", "multi30k/distil")
    options.only = ["masks"]
    assert [job.name for job in jobs_of(place, options)] == ["multi30k/teacher", "multi30k/masks"]


def test_of_tatoeba_the_teacher_is_bundled(tmp_path, options):
    place, options.only = Place("tatoeba", CASE, tmp_path), ["masks"]
    list(jobs_of(place, options))
    teacher = Translator.load(place.teacher, "cpu")
    assert teacher.recipe.decode.max_source is None
    assert teacher("Danke!") == Translator.load("de-en", "cpu")("Danke!")


def test_what_is_kept_is_measured(place, options):
    de_en = Translator.load("de-en", "cpu")
    save_model(place.run(TEACHER), de_en.model, de_en.vocabulary, de_en.recipe)
    (place.run(TEACHER) / "summary.json").write_text('{"seconds": 3.5}')
    keep(place.run(TEACHER), place.teacher)
    assert summary_of(place.teacher).read_text() == '{"seconds": 3.5}'
    assert size(place.kept(TEACHER)) < size(place.run(TEACHER)) / 3  # 8 bits
    place.kept("graph").mkdir(parents=True)
    words = measure(place, options)
    at = words.index("--at-once")
    assert words[at : at + 3] == ["--at-once", f"graph={place.runs}/kept/graph", "--device"]
    assert words[-2:] == ["--rounds", "1"]
    assert words[-4:-2] == ["--trained", str(place.commands)]
    trained = place.commands.read_text().splitlines()
    assert [command.split()[1:3] for command in trained] == [["train", "small"], ["train", "parallel/graph"]]
    assert trained[0].startswith("manyheads train small --train a.en a.de")


def size(folder: Path) -> int:
    return (folder / "model.safetensors").stat().st_size
