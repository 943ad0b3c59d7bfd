"""Mistakes that people make at a command line: what is said, what is advised, and that nothing is lost."""

import pytest

from cli.command import status
from manyheads.text.corpus import check_paths


def refused(capsys, *words):
    """(the exit status, what was said)"""
    code = status(*words)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said", "advised"),
    [
        (["translate", "de-en", "in.txt", "out.txt"], "takes no such argument, got 'out.txt'", "--output FILE"),
        (["inspect", "de-en", "Ein Hund"], "takes no such argument, got 'Ein Hund'", "--text"),
        (["train", "tiny", "pairs.tsv", "--out", "x"], "manyheads train", "--train"),
        (["train", "tiny", "--train", "a.tsv", "--out", "x", "--steps", "100"], "Unknown option: --steps", "--set train.steps=…"),
        (["train", "tiny", "--train", "a.tsv", "--out", "x", "--width", "64"], "Unknown option: --width", "--set model.width=…"),
        (["train", "tiny", "--train", "a.tsv", "--out", "x", "--nonsense"], "Unknown option: --nonsense", "--help"),
        (["train", "tiny", "--train", "a.tsv", "--out", "x", "--teacher"], "--teacher takes at least one value, got none", "--help"),
        (["train", "tiny", "--train", "a.tsv", "--out", "x", "--set"], "--set takes at least one value, got none", "--help"),
        (["translate", "de-en", "--with"], "--with takes at least one value, got none", "--help"),
        (["translate", "de-en", "--n-best", "2.5"], "a whole number is needed, got '2.5'", "--help"),
        (["train", "tiny", "--train", "a.tsv"], "manyheads train needs --out, got none", "`manyheads train --help`"),
        (["compare", "de-en"], "manyheads compare needs --data, got none", "--data"),
        (["inspect", "de-en", "--text", "Danke!", "--tokens", "3"], "--tokens is for language models, got 3 for one that translates", ""),
        (["translate", "de-en", "Ein Hund schläft."], "a file must be readable", "echo 'Ein Hund schläft.' |"),
    ],
)  # fmt: skip
def test_they_are_told_what_to_do(capsys, words, said, advised):
    code, err = refused(capsys, *words)
    assert code == 2
    message, _, hint = err.partition("hint: ")
    assert said in message
    assert advised in hint


@pytest.mark.parametrize("verb", ["translate", "clean"])
def test_a_folder_that_is_not_there_is_found_missing_at_once(capsys, tmp_path, verb):
    pairs, out = tmp_path / "pairs.tsv", str(tmp_path / "nowhere" / "out.tsv")
    pairs.write_text("a\tb\n")
    words = {
        "translate": ["translate", "de-en", str(pairs), "--output", out],
        "clean": ["data", "clean", str(pairs), "--out", out, "--drop", "same"],
    }
    code, err = refused(capsys, *words[verb])
    assert code == 2
    assert f"got {out}" in err
    assert "mkdir -p" in err


def test_models_that_are_nearly_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "model.safetensors").touch()
    (tmp_path / "pairs.tsv").touch()
    assert "did you mean 'runs/first'?" in refused(capsys, "translate", "runs/frist")[1]
    assert "got 'pairs.tsv': it is a file" in refused(capsys, "translate", "pairs.tsv")[1]


def test_commas_are_no_tabs(capsys, tmp_path):
    (tmp_path / "pairs.csv").write_text("Hallo,Hello\n")
    code, err = refused(capsys, "train", "tiny", "--train", str(tmp_path / "pairs.csv"), "--out", str(tmp_path / "run"))
    assert code == 2
    assert "columns must be separated by tabs" in err


def test_a_picture_that_cannot_be_written_names_its_file(capsys, tmp_path):
    place = tmp_path / "there.html"
    place.mkdir()
    code, err = refused(capsys, "inspect", "de-en", "--text", "Hund", "--html", str(place))
    assert code == 1
    assert f"{place} could not be written" in err


@pytest.mark.parametrize("text", ["", "one line\n", "a\tb\n"])
def test_who_is_refused_leaves_no_folder(capsys, tmp_path, text):
    (tmp_path / "pairs.tsv").write_text(text)
    out, there = tmp_path / "new", tmp_path / "there"
    there.mkdir()
    for place in (out, there):
        code, _ = refused(capsys, "train", "tiny", "--train", str(tmp_path / "pairs.tsv"), "--out", str(place))
        assert code == 2
    assert not out.exists()
    assert there.exists()


@pytest.mark.parametrize("name", ["lines.txt", "link.txt"])
def test_nothing_is_written_over_what_is_read(tmp_path, capsys, name):
    lines = tmp_path / "lines.txt"
    lines.write_text("Danke!\n")
    (tmp_path / "link.txt").symlink_to(lines)
    code, said = refused(capsys, "translate", "de-en", "--input", str(lines), "--output", str(tmp_path / name))
    assert code == 2
    assert "the output and the input must be different files" in said
    assert lines.read_text() == "Danke!\n"


def test_two_files_of_pairs_are_no_source_and_target(tmp_path, capsys):
    """A year's worth of pairs, in files that are called .txt: each source would be a whole pair."""
    for name in ("jan.txt", "feb.txt"):
        (tmp_path / name).write_text("ja\tyes\n\nnein\tno\n")
    both = str(tmp_path / "jan.txt"), str(tmp_path / "feb.txt")
    code, said = refused(capsys, "train", "tiny", "--train", *both, "--out", str(tmp_path / "run"))
    assert code == 2
    assert "each looks like a file of pairs, with a tab in every line" in said
    assert f"mv {both[0]} {both[0]}.tsv" in said
    (tmp_path / "feb.txt").write_text("yes\nno\n")
    assert len(check_paths(both, "--train")) == 1


@pytest.mark.parametrize("weight", ["-2", "abc", "1e3"])
def test_a_weight_is_a_number(tmp_path, capsys, weight):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("ja\tyes\n")
    code, said = refused(capsys, "train", "tiny", "--train", f"{pairs}:{weight}", "--out", str(tmp_path / "run"))
    assert code == 2
    assert f"the weight of a file must be a number, got '{pairs}:{weight}'" in said


def test_a_mark_of_utf16_stands_at_the_beginning_of_a_file(tmp_path, capsys):
    odd = tmp_path / "odd.txt"
    odd.write_bytes(b"ab\n\xff\xfexyz\n")
    code, said = refused(capsys, "translate", "de-en", "--input", str(odd))
    assert code == 2
    assert "line 2: byte 0xff at column 1" in said
    assert "UTF-16" not in said


@pytest.mark.parametrize("words", [("clean",), ("distill", "de-en")])
def test_what_is_written_with_tabs_is_not_called_csv(tmp_path, capsys, words):
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "out.csv"
    pairs.write_text("ja\tyes\n")
    code, said = refused(capsys, "data", *words, str(pairs), "--out", str(out))
    assert code == 2
    assert "TSV" in said
    assert not out.exists()
