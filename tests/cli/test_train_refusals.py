"""Bad input: refused with exit 2 and a message that names file and line, or counted and carried on."""

import gzip
import json

import pytest

from cli.command import status as status_of
from training.corpus import TINY, write_pairs

SETTINGS = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "good.tsv", 60)
    return tmp_path


def train(capsys, *train_files, extra=(), out="run"):
    """(status, what it said)"""
    words = ["train", "tiny", "--train", *train_files, "--out", out, "--device", "cpu", *SETTINGS, *extra]
    status = status_of(*words, "--set", "train.steps=2", "--set", "train.validate_every=2")
    said = capsys.readouterr()
    assert said.out == ""  # results go to stdout, and there are none
    return status, said.err


REFUSED = {
    "missing": ([], ["nowhere.tsv"], "a file must be readable, got nowhere.tsv: No such file or directory"),
    "a directory": ([], ["."], "a file must be readable, got .: Is a directory"),
    "empty": ([("a.tsv", b"")], ["a.tsv"], "got a.tsv: nothing in it"),
    "one column": ([("a.tsv", b"a b\n")], ["a.tsv"], "source TAB target, got a.tsv, line 1: 1 column"),
    "three columns": ([("a.tsv", b"a\tb\na\tb\tc\n")], ["a.tsv"], "source TAB target, got a.tsv, line 2: 3 columns"),
    "latin-1": ([("a.tsv", "a\tb\né\tc\n".encode("latin-1"))], ["a.tsv"], "got a.tsv, line 2: byte 0xe9 at column 1"),
    "utf-16": ([("a.tsv", "a\tb\n".encode("utf-16"))], ["a.tsv"], "got a.tsv: it looks like UTF-16"),
    "cut gzip": ([("a.gz", gzip.compress(b"a\tb\n" * 999)[:-9])], ["a.gz"], "must be complete, got a.gz"),
    "unequal": ([("a", b"x\ny\n"), ("b", b"x\n")], ["a", "b"], "the same number of lines, got 2 in a and 1 in b"),
    "twice": ([("a", b"x\n")], ["a", "a"], "a source file and a target file, got a twice"),
    "three files": ([], ["a", "b", "c"], "source files each followed by its target file, got c alone"),
    "all blank": ([("a.tsv", b"\t\n\n  \t \n")], ["a.tsv"], "at least two pairs if some are to be held out, got 0"),
    "one line": ([("a.tsv", b"a\tb\n")], ["a.tsv"], "at least two pairs if some are to be held out, got 1"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_file_that_cannot_be_right_is_refused(folder, capsys, case):
    files, given, message = REFUSED[case]
    for name, content in files:
        (folder / name).write_bytes(content)
    status, said = train(capsys, *given)
    assert status == 2
    assert message in said
    assert "Traceback" not in said
    assert not (folder / "run" / "model.safetensors").exists()


def test_every_fault_of_a_file_comes_at_once(folder, capsys):
    (folder / "a.tsv").write_bytes(b"a\tb\nno tab\na\tb\tc\n\xff\tb\n" + b"bad\n" * 7)
    status, said = train(capsys, "a.tsv")
    assert status == 2
    assert "a.tsv: 10 faults" in said
    for line in ("line 2: 1 column", "line 3: 3 columns", "line 4: byte 0xff", "and 5 more"):
        assert line in said


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.stesp=3", "train.stesp is not known: did you mean 'steps'?"),
        ("modle.width=3", "modle is not a section of a recipe: did you mean 'model'?"),
        ("model.width=3.7", "model.width must be a whole number, got 3.7"),
        ("model.width=wide", "model.width must be a whole number, got 'wide'"),
        ("train.tokens=0", "train.tokens must be between 1 and"),
        ("train.rate=nan", "train.rate must be between 0 and 100, got nan"),
        ("data.tokenizer=character", "did you mean 'characters'?"),
        ("data.vocabulary=200", "at least 259 pieces, got data.vocabulary = 200"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(folder, capsys, setting, message):
    status, said = train(capsys, "good.tsv", extra=["--set", setting])
    assert status == 2
    assert message in said


def test_a_folder_with_another_run_is_refused_and_left_as_it_is(folder, capsys):
    assert train(capsys, "good.tsv")[0] == 0
    before = (folder / "run" / "model.safetensors").read_bytes()
    status, said = train(capsys, "good.tsv")
    assert status == 2
    assert "--out must be a new or empty folder" in said
    assert "hint: --resume continues the run in it" in said
    assert (folder / "run" / "model.safetensors").read_bytes() == before


def test_what_is_wrong_with_single_lines_is_counted(folder, capsys):
    good = (folder / "good.tsv").read_bytes()
    odd = b"\tno source\nno target\t\n\nbell\x07\tb\n" + b"x" * (2 << 20) + b"\ty\n" + b"a" * 300 + b"\tb\n"
    (folder / "a.tsv").write_bytes(good + odd)
    status, said = train(capsys, "a.tsv", extra=["--dev", "good.tsv"])
    assert status == 0
    assert "train: 61 pairs" in said
    assert "3 blank on one side, left out (the first: a.tsv, line 61)" in said
    assert "1 with control characters, kept (the first: a.tsv, line 64)" in said
    assert "2 too long, left out (the first: a.tsv, line 65)" in said


def test_a_model_folder_that_is_damaged_is_named(folder, capsys):
    assert train(capsys, "good.tsv")[0] == 0
    for name in ("model.safetensors", "recipe.toml", "tokenizer.json"):
        path = folder / "run" / name
        content = path.read_bytes()
        for damaged in (content[:-1], bytes([content[0] ^ 1]) + content[1:]):
            path.write_bytes(damaged)
            assert status_of("score", "run", "--data", "good.tsv") == 2
            assert f"run/{name} is damaged" in capsys.readouterr().err
        path.write_bytes(content)


def test_a_finished_run_scores_and_translates(folder, capsys):
    assert train(capsys, "good.tsv")[0] == 0
    assert status_of("evaluate", "run", "--data", "good.tsv", "--json") == 0
    scores = json.loads(capsys.readouterr().out)
    assert {"bleu", "chrf", "perplexity", "exact", "signature", "lines", "seconds"} <= scores.keys()
    assert scores["lines"] == 60
    assert status_of("score", "run", "--data", "good.tsv") == 0
    assert len(capsys.readouterr().out.splitlines()) == 60
