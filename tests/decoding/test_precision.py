"""Which precision a translator computes in: what was asked for, and on a CPU full precision unless it was."""

import inspect
import json
import os
import platform
import subprocess
import sys

import pytest
import torch

import manyheads
from cli.command import status
from decoding.untrained import build
from manyheads import OptionError, compare, evaluate
from manyheads.decoding import rounding
from manyheads.decoding.translator import Translator
from manyheads.machine import choose_dtype
from manyheads.modelfolder import load_model
from manyheads.nn.eightbits import is_exact

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def dtypes(translator):
    return {parameter.dtype for parameter in translator.model.parameters()}


def test_a_gpu_translates_in_half_precision_and_a_cpu_does_not():
    assert choose_dtype(torch.device("cuda")) == torch.float16
    assert choose_dtype(torch.device("cpu")) == torch.float32
    assert dtypes(Translator.load("de-en", "cpu")) == {torch.float32}


@pytest.mark.parametrize("precision", HALF)
def test_half_precision_translates(precision):
    translator = Translator.load("de-en", "cpu", precision)
    assert dtypes(translator) == {HALF[precision]}
    assert translator("Tom ist alt.") == "Tom is old."


def test_weights_that_were_rounded_are_read_again_to_be_saved(tmp_path):
    """From wherever they came: the folder's name was relative, and files call their sides otherwise."""
    translator = Translator.load("de-en", "cpu", "fp16").naming("de", "en")
    translator.save(tmp_path / "out")
    assert_equal_weights(load_model(tmp_path / "out")[0], load_model("de-en")[0])
    assert translator.precision == "fp16"


def assert_equal_weights(one, other):
    other = other.state_dict()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.state_dict().items())


def test_a_folder_is_found_again_from_elsewhere(tmp_path, monkeypatch):
    Translator.load("de-en", "cpu").save(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    translator = Translator.load("model", "cpu", "bf16")
    monkeypatch.chdir("/")
    translator.save(tmp_path / "again")
    assert_equal_weights(load_model(tmp_path / "again")[0], load_model("de-en")[0])


def test_rounded_weights_that_are_nowhere_in_full_are_not_saved(tmp_path):
    translator = Translator.load("de-en", "cpu", "fp16")
    bare = Translator(translator.model, translator.vocabulary, translator.recipe)
    with pytest.raises(OptionError, match="in full precision, got fp16 and no folder to read them from"):
        bare.save(tmp_path / "out")
    translator.model.words.weight.data[7] += 1  # no longer what the folder has
    with pytest.raises(OptionError, match=r"in full precision, got fp16, and the weights in .* differ"):
        translator.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Models with one source piece, é, whose vector is too large for fp16, or becomes so when it is multiplied as embeddings are."""
    place = tmp_path_factory.mktemp("large")
    for name, size in (("runs over", 60_000.0), ("too large", 70_000.0)):
        translator = build("characters")
        translator.model.words.weight.data[translator.vocabulary.source.encode(["é"])[0]] = size
        translator.save(place / name)
    return place


def test_weights_that_a_precision_cannot_hold_are_refused(large):
    with pytest.raises(OptionError) as error:
        Translator.load(large / "too large", "cpu", "fp16")
    assert (
        error.value.message
        == "--precision must be able to hold every weight, got fp16, which is too narrow for words.weight"
    )
    assert error.value.hint == "--precision bf16 has the range of fp32"
    assert Translator.load(large / "too large", "cpu", "bf16").precision == "bf16"


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"sample": True}, {"no_repeat": 3}], ids=str)
def test_a_line_whose_numbers_are_not_finite_is_told_apart(large, options):
    """It is not cut off at a bound, and the lines beside it are what they are alone."""
    translator = Translator.load(large / "runs over", "cpu", "fp16")
    lines = ["cab", "é", "fed a"]
    found = list(translator.translate(lines, translator.search(**options)))
    assert [one.finite for one in found] == [True, False, True]
    assert (found[1].text, found[1].truncated, found[1].score) == ("", False, -torch.inf)
    if not options:
        assert [found[0].text, found[2].text] == list(translator([lines[0], lines[2]]))


def test_the_command_counts_them_and_writes_json(large, tmp_path, capsys):
    (tmp_path / "in").write_text("cab\né\né\n")
    options = ("--device", "cpu", "--json", "--precision", "fp16")
    assert status("translate", str(large / "runs over"), str(tmp_path / "in"), *options) == 0
    out, err = capsys.readouterr()
    found = [strict_json(line) for line in out.splitlines()]
    assert [one["score"] is None for one in found] == [False, True, True]
    assert [one["truncated"] for one in found] == [True, False, False]
    said = "2 lines with numbers that are not finite, left blank or incomplete"
    assert f"{said} (--precision bf16 or fp32 holds larger ones)" in err.splitlines()


def strict_json(text):
    """NaN is none."""

    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("as_json", [True, False])
def test_scores_and_comparisons_count_them_too(large, tmp_path, capsys, as_json):
    """A line that is there twice counts twice."""
    (tmp_path / "pairs.tsv").write_text("cab\tbad\né\tbad\né\tcab\n")
    model = str(large / "runs over")
    options = ("--data", str(tmp_path / "pairs.tsv"), "--device", "cpu", "--precision", "fp16", *["--json"] * as_json)
    for words, counted, of in (
        (("evaluate", model), 2, [""]),
        (("compare", model, model), [2, 2], [f" of {model}", f" of {model} (2)"]),
    ):
        assert status(*words, *options) == 0
        out, err = capsys.readouterr()
        said = "with numbers that are not finite, left blank or incomplete (--precision bf16 or fp32 holds larger ones)"
        assert [line for line in err.splitlines() if "finite" in line] == [f"2 lines{one} {said}" for one in of]
        if as_json:
            assert strict_json(out)["not_finite"] == counted


def test_figures_are_those_of_full_precision_unless_said(tmp_path):
    """Whatever the device, and it is said with them."""
    (tmp_path / "pairs.tsv").write_text("Tom ist alt.\tTom is old.\n")
    for given, precision in (({}, "fp32"), ({"precision": "bf16"}, "bf16")):
        assert evaluate("de-en", tmp_path / "pairs.tsv", device="cpu", **given).as_object()["precision"] == precision
    mixed = [Translator.load("de-en", "cpu", precision) for precision in ("fp32", "bf16")]
    assert compare(mixed, tmp_path / "pairs.tsv").precision == "fp32, bf16"
    for function in (evaluate, compare):
        assert inspect.signature(function).parameters["precision"].default == "fp32"


def test_an_unknown_precision_is_refused_before_the_model_is_read():
    with pytest.raises(OptionError) as error:
        Translator.load("there is no such folder", "cpu", "fp8")
    assert error.value.message == "--precision must be one of 'auto', 'fp32', 'bf16', 'fp16', 'int8', got 'fp8'"


# ── in 8 bits, on a CPU ─────────────────────────────────────────────────────────────────────────────────────────────

exactly = pytest.mark.skipif(not is_exact(), reason="this processor adds up 8-bit products inexactly")
LINES = ["Tom ist alt.", "Ein Hund schläft auf dem Sofa.", "Wo ist der Bahnhof?", "Ich habe gestern ein Buch gelesen."]


@exactly
def test_int8_translates_and_scores_like_full_precision():
    full, held = (Translator.load("de-en", "cpu", precision) for precision in ("fp32", "int8"))
    assert held.precision == "int8"
    for beam in (1, 5):
        assert held(LINES, beam=beam) == full(LINES, beam=beam)
    pairs = list(zip(LINES, full(LINES), strict=True))
    for ours, theirs in zip(held.score(pairs), full.score(pairs), strict=True):
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=0.5)
    assert held.align(pairs) == full.align(pairs)


@exactly
def test_what_was_held_in_int8_is_saved_in_full(tmp_path):
    translator = Translator.load("de-en", "cpu", "int8")
    translator.save(tmp_path / "out")
    assert_equal_weights(load_model(tmp_path / "out")[0], load_model("de-en")[0])
    translator.model.words.numbers[7] += 1
    with pytest.raises(OptionError, match=r"in full precision, got int8, and the weights in .* differ"):
        translator.save(tmp_path / "again")


@exactly
def test_what_is_held_in_int8_has_no_gradients_to_inspect():
    with pytest.raises(OptionError, match="must have gradients, got a model in int8"):
        manyheads.inspect(Translator.load("de-en", "cpu", "int8"), "Tom ist alt.")


def test_int8_is_for_cpus():
    with pytest.raises(OptionError, match="--precision int8 is for CPUs, got cuda"):
        choose_dtype(torch.device("cuda"), "int8")


def test_int8_is_refused_where_sums_would_be_wrong(monkeypatch):
    monkeypatch.setattr(rounding, "is_exact", lambda: False)
    with pytest.raises(OptionError, match="needs a processor that adds up products of 8-bit numbers exactly"):
        Translator.load("de-en", "cpu", "int8")


@exactly
@pytest.mark.skipif(platform.machine() != "x86_64", reason="oneDNN is told to use AVX2 only")
def test_a_processor_that_adds_up_inexactly_is_found_out():
    code = "from manyheads.nn.eightbits import is_exact; print(is_exact())"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}, capture_output=True, check=True
    )
    assert run.stdout.strip() == b"False"
