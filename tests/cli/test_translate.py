"""`manyheads translate`: one line in, one line out, whatever is in it."""

import json
import os
import random
import stat
import subprocess
import sys

import pytest

from cli.command import status
from manyheads import Translator
from manyheads.modelfolder import bundled
from manyheads.text.lines import read_lines

ODD = ["Guten Tag!", "", "   ", "Ja.\u2028Nein.", "\t", "Nein\x00!", "a\rb", "\u0085", "Gute Nacht!", "\x0c", "😀", ""]


@pytest.fixture(scope="module")
def sentences():
    import gzip

    lines = gzip.decompress(bundled("tatoeba/dev.tsv.gz").read_bytes()).decode().split("\n")
    return [line.split("\t")[0] for line in lines[:64]]


def translate(capsysbinary, *words):
    assert status("translate", "de-en", "--device", "cpu", *words) == 0
    return capsysbinary.readouterr().out.decode()


def test_every_line_has_its_line(tmp_path, capsysbinary):
    path = tmp_path / "odd.txt"
    path.write_bytes("".join(f"{line}\n" for line in ODD).encode())
    out = translate(capsysbinary, "--input", str(path), "--beam", "1").split("\n")
    assert len(out) == len(ODD) + 1
    alone = Translator.load("de-en", "cpu")
    for line, translation in zip(ODD, out, strict=False):
        assert (translation == "") == (line.strip() == "")
        assert translation == alone(line, beam=1)


def test_how_many_lines_at_a_time_is_the_devices_choice_unless_it_is_said(tmp_path, capsysbinary, monkeypatch):
    asked, search = [], Translator.search
    monkeypatch.setattr(Translator, "search", lambda self, **options: asked.append(options) or search(self, **options))
    (tmp_path / "in").write_text("Guten Tag!\n")
    for words in ((), ("--batch", "3")):
        translate(capsysbinary, "--input", str(tmp_path / "in"), "--beam", "1", *words)
    assert [options.get("batch") for options in asked] == [None, 3]


def test_a_file_in_a_file_out_and_no_newline_at_the_end(tmp_path, capsysbinary):
    (tmp_path / "in").write_text("Guten Tag!\nGute Nacht!")
    assert translate(capsysbinary, "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")) == ""
    assert len((tmp_path / "out").read_bytes().split(b"\n")) == 3


def test_an_output_is_replaced_when_all_is_written_and_a_bad_line_leaves_it_as_it_was(tmp_path, capsysbinary):
    path, out = tmp_path / "text", tmp_path / "written"
    path.write_bytes(b"Guten Tag!\nM\xfcller\n")
    out.write_text("before")
    assert status("translate", "de-en", "--device", "cpu", "--input", str(path), "--output", str(out)) == 2
    assert b"line 2" in capsysbinary.readouterr().err
    assert out.read_text() == "before"
    path.write_text("Guten Tag!\nGute Nacht!\n")
    printed = translate(capsysbinary, "--input", str(path))
    translate(capsysbinary, "--input", str(path), "--output", str(out))
    assert out.read_text() == printed
    assert sorted(os.listdir(tmp_path)) == ["text", "written"]


@pytest.mark.parametrize("name", ["out.gz", "out.zst"])
def test_an_output_is_packed_as_its_name_says(tmp_path, capsysbinary, name):
    (tmp_path / "in").write_text("Guten Tag!\n")
    translate(capsysbinary, "--input", str(tmp_path / "in"), "--output", str(tmp_path / name))
    assert not (tmp_path / name).read_bytes().startswith(b"Good")
    assert list(read_lines(str(tmp_path / name))) == [
        translate(capsysbinary, "--input", str(tmp_path / "in")).strip().encode()
    ]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path, capsysbinary):
    (tmp_path / "in").write_text("Guten Tag!\n")
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True)
    translate(capsysbinary, "--input", str(tmp_path / "in"), "--output", str(tmp_path / "pipe"))
    assert reader.communicate(timeout=60)[0] == translate(capsysbinary, "--input", str(tmp_path / "in"))
    assert sorted(os.listdir(tmp_path)) == ["in", "pipe"]
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_n_best_lines(tmp_path, capsysbinary):
    (tmp_path / "in").write_text("Guten Tag!\n\nGute Nacht!\n")
    out = translate(capsysbinary, "--input", str(tmp_path / "in"), "--n-best", "3")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] + ["3"] * 3
    assert [row[1] for row in rows] == ["1", "2", "3", "1", "1", "2", "3"]
    for number in "13":
        scores = [float(row[2]) for row in rows if row[0] == number]
        assert scores == sorted(scores, reverse=True)


def test_json_lines(tmp_path, capsysbinary):
    (tmp_path / "in").write_text("Guten Tag!\n\n")
    out = translate(capsysbinary, "--input", str(tmp_path / "in"), "--json", "--n-best", "2")
    first, blank = map(json.loads, out.splitlines())
    assert first["translation"] == first["n_best"][0]["translation"]
    assert first["truncated"] is False
    assert blank["translation"] == ""


def test_a_pipe_that_closes_early_is_no_error():
    command = f"yes 'Guten Tag!' | head -20 | {sys.executable} -m manyheads translate de-en --beam 1 | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--beam", "0"], "beam must be between 1 and 1000, got 0"),
        (["--n-best", "5", "--beam", "2"], "--n-best needs a beam at least as large"),
        (["--top-k", "5"], "--top-k needs sample (--sample), got 5 without it"),
        (["--sample", "--beam", "3"], "sampling draws one hypothesis at a time"),
        (["--seed", "5"], "--seed is that of samples, got 5 without --sample or --mbr"),
        (["--input", "nowhere.txt"], "a file must be readable, got nowhere.txt"),
    ],
)
def test_options_that_cannot_be_are_refused(capsys, words, message):
    assert status("translate", "de-en", *words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_do_not_depend_on_the_batch(sentences, beam):
    """1, 7 and 64 a batch, shuffled: the same, but for near-ties, which are counted and named."""
    translator = Translator.load("de-en", "cpu")
    one_by_one = translator.translate(sentences, translator.search(beam=beam, batch=1))
    alone = dict(zip(sentences, one_by_one, strict=True))
    near_ties = []
    for batch in (7, 64):
        shuffled = random.Random(batch).sample(sentences, len(sentences))
        search = translator.search(beam=beam, batch=batch)
        for line, translation in zip(shuffled, translator.translate(shuffled, search), strict=True):
            if translation.text != alone[line].text:
                near_ties.append((line, alone[line], translation))
    for line, one, other in near_ties:
        print(f"near-tie: {line!r}: {one.text!r} {one.score} {other.text!r} {other.score}")
        assert abs(one.score - other.score) < 1e-4
    assert len(near_ties) <= 2


@pytest.mark.slow
def test_beam_1_is_greedy_and_n_best_is_sorted(sentences):
    translator = Translator.load("de-en", "cpu")
    lists = list(translator.translate(sentences, translator.search(beam=5, n_best=5)))
    for translation in lists:
        scores = [one.score for one in translation.n_best]
        assert scores == sorted(scores, reverse=True)
        assert len({one.text for one in translation.n_best}) >= 1
    assert all(len(translation.n_best) == 5 for translation in lists)
