"""The runs behind a comparison: which commands they are, and that those that take too long are told to stop."""

import argparse
import sys
from pathlib import Path

import pytest
from benchmarks.quality import Case
from benchmarks.students import STUDENTS, Place, distil, measure, study, teach, together

from benchmarks import students

CASE = Case("small", ["a.en", "a.de"], ["b.en", "b.de"], ["c.en", "c.de"])


@pytest.fixture
def place(tmp_path):
    return Place(CASE, tmp_path / "runs")


@pytest.fixture
def options():
    return argparse.Namespace(
        set=["train.epochs=3"], device="cpu", only=list(STUDENTS), json=None, more=["--rounds", "1"], corpus="multi30k"
    )


def test_a_student_learns_from_what_it_is_told_and_begins_as_it_is_told(place, options):
    assert " ".join(teach(place, options)) == (
        f"train small --train a.en a.de --dev b.en b.de --out {place.runs}/teacher --resume --device cpu --set train.epochs=3"
    )
    assert distil(place, options)[:5] == ["data", "distill", f"{place.runs}/teacher", "a.en", "a.de"]
    raw, taught = (study(name, place, options) for name in ("graph", "masks, distilled, from the teacher"))
    assert raw[:5] == ["train", "parallel/graph", "--train", "a.en", "a.de"]
    assert "--from" not in raw
    assert taught[:4] == ["train", "parallel/mask", "--train", str(place.distilled)]
    assert taught[-2:] == ["--from", str(place.teacher)]
    assert len({str(place.student(name)) for name in STUDENTS}) == len(STUDENTS) == 9


def test_who_has_a_model_is_measured(place, options):
    (place.student("graph")).mkdir(parents=True)
    (place.student("graph") / "model.safetensors").touch()
    words = measure(place, options)
    at = words.index("--at-once")
    assert words[at : at + 3] == ["--at-once", f"graph={place.runs}/graph", "--device"]
    assert words[-2:] == ["--rounds", "1"]


def test_who_takes_too_long_is_told_to_stop(tmp_path, monkeypatch, capsys):
    program = tmp_path / "program"
    program.write_text("import sys, time\nprint('begun', flush=True)\ntime.sleep(float(sys.argv[-1]))\n")
    start = students.subprocess.Popen
    monkeypatch.setattr(
        students.subprocess, "Popen", lambda words, **how: start([sys.executable, program, words[-1]], **how)
    )
    together([["train", "0"], ["train", "600"]], tmp_path / "logs", 5.0)
    said = capsys.readouterr().out.splitlines()
    assert '"status": 0' in said[2]
    assert '"status": -15' in said[3]
    assert '"begun"' in said[2]
    assert Path(tmp_path / "logs" / "train-600.log").read_text() == "begun\n"
