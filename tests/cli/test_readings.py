"""`translate --align`, `--with` and `--mbr`, `align` and `compare`, as they are typed."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from cli.command import status
from manyheads import OptionError, Translator, align, compare
from manyheads.cli.main import named_stdin

PAIRS = "Guten Tag!\tGood day!\n\nGute Nacht!\tGood night!\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "in").write_text("Ein Hund schläft.\n\nGute Nacht!\n")
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    return tmp_path


def out(capsysbinary, *words):
    assert status(*words, "--device", "cpu") == 0
    return capsysbinary.readouterr().out.decode()


def test_a_column_more(files, capsysbinary):
    plain = out(capsysbinary, "translate", "de-en", str(files / "in")).splitlines()
    aligned = [
        line.split("\t") for line in out(capsysbinary, "translate", "de-en", str(files / "in"), "--align").splitlines()
    ]
    assert [row[0] for row in aligned] == plain
    assert [len(row) for row in aligned] == [2, 2, 2]
    assert aligned[0][1].startswith("0-0 1-1 2-")
    assert aligned[1] == ["", ""]
    ranked = out(capsysbinary, "translate", "de-en", str(files / "in"), "--align", "--n-best", "2").splitlines()
    assert [len(line.split("\t")) for line in ranked] == [5] * 5


def test_links_as_json_and_where_they_come_from(files, capsysbinary):
    words = ("translate", "de-en", str(files / "in"), "--align-head", "2.3:read", "--json", "--n-best", "2")
    first, blank, _ = map(json.loads, out(capsysbinary, *words).splitlines())
    assert first["align_head"] == "2.3:read"
    assert first["alignment"] == first["n_best"][0]["alignment"]
    assert all(isinstance(s, int) and isinstance(t, int) for s, t in first["alignment"])
    assert blank["alignment"] == []


def test_one_line_a_pair(files, capsysbinary):
    assert out(capsysbinary, "align", "de-en", "--data", str(files / "pairs.tsv")) == "0-0 1-1\n\n0-0 1-1\n"
    found = out(capsysbinary, "align", "de-en", "--data", str(files / "pairs.tsv"), "--json").splitlines()
    assert json.loads(found[0]) == {"alignment": [[0, 0], [1, 1]], "align_head": "0.0:read"}


def test_a_model_with_itself_says_the_same(files, capsysbinary):
    plain = out(capsysbinary, "translate", "de-en", str(files / "in"))
    assert out(capsysbinary, "translate", "de-en", str(files / "in"), "--with", "de-en") == plain
    scores = [
        out(capsysbinary, "evaluate", "de-en", "--data", str(files / "pairs.tsv"), "--json", *more)
        for more in ((), ("--with", "de-en"))
    ]
    first, both = map(json.loads, scores)
    assert first["bleu"] == both["bleu"]
    assert first["perplexity"] == pytest.approx(both["perplexity"], rel=1e-3)


@pytest.mark.slow
def test_samples_that_agree(files, capsysbinary):
    words = ("translate", "de-en", str(files / "in"), "--mbr", "4", "--top-p", "0.9")
    found = out(capsysbinary, *words)
    assert found == out(capsysbinary, *words, "--batch", "1")
    assert found.splitlines()[1] == ""
    drawn = [
        out(capsysbinary, *words[:3], "--sample", "--top-p", "0.9", "--seed", seed).splitlines() for seed in "1234"
    ]
    assert all(line in column for line, column in zip(found.splitlines(), zip(*drawn, strict=True), strict=True))


@pytest.mark.slow
def test_a_comparison(files, capsysbinary):
    translator = Translator.load("de-en", "cpu")
    translator.model.words.weight.data[:300] = 0  # most of the bytes: what is spelt in them is lost
    translator.save(files / "other", "int8")
    words = ("compare", "de-en", str(files / "other"), "--data", str(files / "pairs.tsv"))
    found = json.loads(out(capsysbinary, *words, "--json"))
    assert list(found) == [
        "models",
        "metrics",
        "signatures",
        "differences",
        "lines",
        "left_out",
        "not_finite",
        "precision",
    ]
    assert (found["lines"], found["left_out"], found["not_finite"], found["precision"]) == (2, 1, [0, 0], "fp32")
    assert [list(figures[1]) for figures in found["metrics"].values()] == [["score", "interval", "p"]] * 2
    table = out(capsysbinary, *words)
    assert "±" in table
    assert "nrefs:1|bs:1000|seed:12345" in table
    assert "precision: fp32" in table


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["translate", "de-en", "--align-head", "7.1"],
            "a head that exists, got '7.1' in a decoder of 4 layers and 4",
        ),
        (["translate", "de-en", "--align-head", "first"], "LAYER or LAYER.HEAD, with or without :read, got 'first'"),
        (["translate", "de-en", "--mbr", "1"], "agreement needs 2 to 1,000 samples, got 1"),
        (["translate", "de-en", "--mbr", "4", "--beam", "2"], "sampling draws one hypothesis at a time"),
        (["translate", "de-en", "--with", "nowhere"], "got 'nowhere': there is no such folder"),
        (["compare", "de-en", "--data", "x.tsv"], "a comparison needs two models or more, got 1"),
        (["align", "de-en"], "--data"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_what_cannot_be_is_refused(capsys, files, words, message):
    more = [str(files / "in")] if words[0] == "translate" else []
    assert status(*words, *more) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["align", "compare", "translate", "evaluate"])
def test_help_never_waits_for_torch(verb):
    code = f"""
import sys
from manyheads.cli.main import main
try:
    main(["{verb}", "--help"])
except SystemExit as stop:
    assert not stop.code, stop.code
sys.exit("torch" in sys.modules or "sacrebleu" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    assert "Usage: manyheads" in result.stdout


def test_files_are_read_as_the_recipe_names_their_sides(tmp_path):
    """A memory whose header says that English is the source, for a model that reads German."""
    unit = '<tu><tuv xml:lang="en"><seg>A dog is sleeping.</seg></tuv><tuv xml:lang="de"><seg>Ein Hund schläft.</seg></tuv></tu>'
    memory = tmp_path / "memory.tmx"
    memory.write_text(f'<tmx version="1.4"><header srclang="en"/><body>{unit}</body></tmx>')
    translator = Translator.load("de-en", "cpu")
    named = replace(translator.recipe, data=replace(translator.recipe.data, source="de", target="en"))
    german = Translator(translator.model, translator.vocabulary, named)
    assert compare([german, german], memory).metrics["chrf"][0].score > 90
    assert [one.links for one in align(german, memory)] == [
        translator.align([("Ein Hund schläft.", "A dog is sleeping.")])[0].links
    ]
    with pytest.raises(OptionError, match="use the same names for the sides of a file"):
        compare([german, translator], memory)


def test_standard_input_is_no_output():
    words = ["data", "clean", "-", "--out", "-", "--removed", "-"]
    assert named_stdin(words) == ["data", "clean", "/dev/stdin", "--out", "-", "--removed", "-"]


def test_weights_are_for_training(capsys):
    assert status("evaluate", "de-en", "--data", "some.tsv:2") == 2
    assert "only training data takes a weight, got 'some.tsv:2' for --data" in capsys.readouterr().err
