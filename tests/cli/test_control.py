"""`manyheads translate` with wishes: what is asked for on the command line is in the output."""

import json

import pytest

from cli.command import status

DOG = "Ein Hund läuft durch den Park."


@pytest.fixture
def translate(tmp_path, capsysbinary):
    def run(*words, lines=(DOG,)):
        (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        assert status("translate", "de-en", "--device", "cpu", "--input", str(tmp_path / "in"), *words) == 0
        printed = capsysbinary.readouterr()
        return printed.out.decode().splitlines(), printed.err.decode()

    return run


def test_a_prefix_in_the_middle_of_a_word_and_after_it(translate):
    plain, _ = translate()
    for prefix in ("A do", "A dog ", "A dog runs through the par"):
        assert translate("--prefix", prefix) == (plain, "")
    ((line,), _) = translate("--prefix", "The dog wa")
    assert line.startswith("The dog wa")


def test_every_line_may_have_its_own_prefix(translate, tmp_path):
    (tmp_path / "prefixes").write_text("The \n\nOne")
    first, second, third = translate("--prefixes", str(tmp_path / "prefixes"), lines=[DOG] * 3)[0]
    assert (first[:4], third[:3]) == ("The ", "One")
    assert second == translate()[0][0]


def test_phrases(translate):
    ((line,), said) = translate("--must", "little dog", "--must", "today", "--never", "park", "--never", "A")
    assert {"little", "dog", "today"} <= set(line.replace(".", " ").split())
    assert not {"park", "A"} & set(line.replace(".", " ").split())
    assert said == ""


def test_a_glossary_is_for_the_lines_that_hold_its_terms(translate, tmp_path):
    (tmp_path / "terms.tsv").write_text("Hund\tpuppy\nHund\t!dog\nKatze\tkitten\n\n")
    lines = [DOG, "Eine Katze schläft.", "Tom schläft."]
    out, said = translate("--glossary", str(tmp_path / "terms.tsv"), lines=lines)
    assert "puppy" in out[0]
    assert "dog" not in out[0].split()
    assert "kitten" in out[1]
    assert out[2] == translate(lines=lines)[0][2]
    assert said == ""


def test_what_cannot_be_is_named_and_counted(translate):
    (line,), said = translate("--must", "a very long phrase indeed", "--max-length", "4", "--json")
    assert json.loads(line)["unmet"] == ["a very long phrase indeed"]
    assert "1 line with an unmet requirement" in said
    for words in ([], ["--max-length", "9"]):
        (line,), said = translate("--json", *words)
        assert "unmet" not in json.loads(line), "nothing was wished for"
        assert json.loads(line)["looped"] is False
    (line,), said = translate("--json", "--prefix", "A")
    assert json.loads(line)["unmet"] == []


def test_alternatives_and_diverse_outputs_are_ranked(translate):
    for words in (["--alternatives", "3", "--prefix", "A dog "], ["--n-best", "3", "--diversity", "9"]):
        rows = [line.split("\t") for line in translate(*words)[0]]
        assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"], ["1", "3"]]
        scores = [float(row[2]) for row in rows]
        assert scores == sorted(scores, reverse=True)
    assert len({row[3].split()[0] for row in rows}) > 1, "they differ from the first word on"


def test_loops_are_counted_and_can_be_forbidden(translate):
    words = ("--sample", "--temperature", "0.01", "--min-length", "120", "--json")
    (line,), said = translate(*words)
    assert json.loads(line)["looped"] is True
    assert "1 line ending in a loop of the same few pieces" in said
    (line,), said = translate(*words, "--no-repeat", "3")
    assert json.loads(line)["looped"] is False
    assert "in a loop" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prefix", "A", "--prefixes", "file"], "a line has one prefix, got --prefix 'A' and --prefixes file"),
        (["--prefixes", "-"], "standard input is read once"),
        (["--prefixes", "nowhere.txt"], "a file must be readable, got nowhere.txt"),
        (["--glossary", "nowhere.tsv"], "a file must be readable, got nowhere.tsv"),
        (["--must", " "], "a phrase must start and end with something other than a space"),
        (["--diversity", "1"], "set --n-best to 2 or more"),
        (["--sample", "--must", "dog"], "phrases that must appear need a beam search"),
        (["--min-length", "1.5"], "Invalid value"),
    ],
)
def test_wishes_that_cannot_be_are_refused(capsys, monkeypatch, words, message):
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{DOG}\n".encode())))
    assert status("translate", "de-en", "--device", "cpu", *words) == 2
    assert message in capsys.readouterr().err


def test_all_faults_of_a_glossary_are_named(capsys, tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text(f"Hund\tdog\nKatze\n\t\nMaus\t !\na\tb\tc\nRad\t!{'x' * 201}\nHaus\t\ufffd\nBaum\t{'x' * 200}\n")
    assert status("translate", "de-en", "--glossary", str(path)) == 2
    assert f"{path}: 5 faults" in (said := capsys.readouterr().err)
    for number in (2, 4, 5):
        assert f"source term TAB target term, got {path}, line {number}\n" in said
    assert f"{path}, line 6: a phrase may have at most 200 characters, got 201" in said
    assert f"{path}, line 7: a phrase must be valid Unicode" in said
