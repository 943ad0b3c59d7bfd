"""`classify` and `evaluate` of a classifier, by real processes: one line in, one line out."""

import json
import subprocess
import sys

import pytest

from classification.labelled import EVEN, ODD, TINY, write_labelled
from cli.command import status
from manyheads import train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    data = {"train": write_labelled(folder / "train.tsv", 200), "dev": write_labelled(folder / "dev.tsv", 40, 1)}
    changes = {**TINY, "train.steps": 60, "train.validate_every": 60, "train.rate": 0.01, "embed.max_length": 32}
    train("classify/small", **data, out=folder / "run", changes=changes, device="cpu", quiet=True)
    return folder


def manyheads(*words, given=None):
    command = [sys.executable, "-m", "manyheads", *map(str, words)]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_one_line_in_one_line_out(run, tmp_path):
    lines = ["abc", "", "bca", "h" * 100, "ab\tba"]
    given = "".join(f"{line}\n" for line in lines)
    plain = manyheads("classify", run / "run", given=given)
    assert plain.returncode == 0
    labels = plain.stdout.split("\n")[:-1]
    assert len(labels) == len(lines)
    assert labels[:3] == [ODD, "", EVEN]
    assert "1 line longer than 32 tokens: only the beginning was classified" in plain.stderr
    found = [json.loads(line) for line in manyheads("classify", run / "run", "--json", given=given).stdout.splitlines()]
    assert [one["text"] for one in found] == lines
    assert [one["label"] or "" for one in found] == labels
    assert found[1] == {"text": "", "label": None, "probability": None, "probabilities": {}, "tokens": 0}
    for one in found:
        if one["label"]:
            assert one["probability"] == max(one["probabilities"].values()) == one["probabilities"][one["label"]]
            assert sum(one["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    (tmp_path / "lines.txt").write_text(given)
    options = "--input", tmp_path / "lines.txt", "--output", tmp_path / "out.txt", "--top", 2
    assert manyheads("classify", run / "run", *options).returncode == 0
    first = (tmp_path / "out.txt").read_text().splitlines()[0].split("\t")
    assert first[::2] == [ODD, EVEN]
    assert float(first[1]) == pytest.approx(found[0]["probability"], abs=1e-4)


@pytest.mark.slow
def test_evaluate_tells_every_class(run):
    found = json.loads(manyheads("evaluate", run / "run", "--data", run / "dev.tsv", "--json").stdout)
    assert found["accuracy"] > 80
    assert found["classes"].keys() == {ODD, EVEN}
    table = manyheads("evaluate", run / "run", "--data", run / "dev.tsv").stdout
    assert f"accuracy    {found['accuracy']:.2f}" in table
    assert ODD in table


def test_wrong_use_is_refused(run, tmp_path, capsys):
    (tmp_path / "strange.tsv").write_text(f"{ODD}\tabc\nstrange\tabc\n", encoding="utf-8")
    (tmp_path / "three.txt").write_text("a\na\tb\tc\n")
    for words, why in (
        (("evaluate", run / "run", "--data", tmp_path / "strange.tsv"), "strange.tsv, line 2"),
        (("evaluate", run / "run", "--data", run / "dev.tsv", "--beam", 3), "a classifier is scored on texts as they are"),
        (("classify", run / "run", "--top", 0), "--top is a number of labels, got 0"),
        (("classify", run / "run", "--input", tmp_path / "three.txt"), "three.txt, line 2: 3 texts: 'a\\tb\\tc'"),
        (("classify", "de-en"), "a model that can classify texts is needed, got de-en: its task is 'translate'"),
        (("translate", run / "run"), "use it with `manyheads classify` or `evaluate`"),
    ):  # fmt: skip
        assert status(*map(str, words)) == 2, words
        assert why in capsys.readouterr().err
