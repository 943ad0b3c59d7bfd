"""The command line, as a process: what it prints, where, and with which status."""

import json
import os
import subprocess
import sys

import pytest
import torch

from manyheads import Transformer, __version__, load_recipe, recipe_names
from manyheads.cli.main import as_typed
from manyheads.modelfolder import load_model
from manyheads.models.language_model import LanguageModel


def manyheads(*arguments, **options):
    command = [sys.executable, "-m", "manyheads", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_flops_as_a_table():
    result = manyheads("flops", "paper/base", "--batch", "32", "--length", "50")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "65,144,832" in result.stdout
    assert "105,607,987,200" in result.stdout
    assert "feed-forward" in result.stdout


def test_flops_as_json_is_what_the_model_has():
    result = manyheads("flops", "tiny", "--json", "--set", "model.layers=3", "--set", "model.norm=post")
    counted = json.loads(result.stdout)
    recipe = load_recipe("tiny", {"model.layers": 3, "model.norm": "post"})
    model = Transformer(recipe.model, recipe.data.vocabulary)
    assert counted["parameters"]["total"] == sum(p.numel() for p in model.parameters())
    assert set(counted["multiply_adds"]) == set(counted["parameters"])
    assert counted["multiply_adds"]["total"] == sum(v for k, v in counted["multiply_adds"].items() if k != "total")


def test_flops_of_a_language_model_has_one_length():
    counted = json.loads(manyheads("flops", "lm/tiny", "--json", "--batch", "3", "--length", "9").stdout)
    recipe = load_recipe("lm/tiny")
    model = LanguageModel(recipe.language_model, recipe.data.vocabulary)
    assert counted["parameters"]["total"] == sum(p.numel() for p in model.parameters())
    assert (counted["batch"], counted["length"]) == (3, 9)
    assert "3 × 9 tokens, vocabulary 2,000" in manyheads("flops", "lm/tiny", "--batch", "3", "--length", "9").stdout


def test_flops_of_a_model_are_of_its_own_vocabulary():
    counted = json.loads(manyheads("flops", "de-en", "--json").stdout)
    model, _, _ = load_model("de-en")
    assert counted["parameters"]["total"] == sum(p.numel() for p in model.parameters())


def test_recipes_lists_every_preset():
    result = manyheads("recipes")
    assert result.returncode == 0
    assert [line.split()[0] for line in result.stdout.splitlines() if not line.startswith(" ")] == recipe_names()


def test_what_recipes_show_prints_is_the_recipe_again(tmp_path):
    path = tmp_path / "again.toml"
    path.write_text(manyheads("recipes", "show", "paper/big").stdout)
    assert load_recipe(str(path)) == load_recipe("paper/big")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["flosp"], 'Unknown command "flosp"', "hint: `manyheads --help`"),
        (["flops"], "RECIPE", "hint: `manyheads flops --help`"),
        (["flops", "tiny", "--btach", "3"], "--btach", "hint: `manyheads flops --help`"),
        (["flops", "tiny", "--batch", "0"], "--batch", "hint: `manyheads flops --help`"),
        (["flops", "tiny", "--length", "2.7"], "--length", "hint: `manyheads flops --help`"),
        (["flops", "x[/b].toml"], "there is no such file", ""),
        (["flops", "tiny", "--set", "model.width=" + "9" * 5000], "model.width must be a whole number", ""),
        (["flops", "tiny", "--set", "model.width=256\nx = 1"], "model.width must be a whole number", ""),
        (["flops", "a" * 300 + ".toml"], "there is no such file", ""),
        (["flops", "tiny", "--batch", "many"], "--batch", "hint: `manyheads flops --help`"),
        (["flops", "lm/tiny", "--target-length", "3"], "--target-length is for pairs, got 3", ""),
        (["flops", "tinny"], "got 'tinny'", "hint: did you mean 'tiny'?"),
        (
            ["flops", "tiny", "--set", "width=3"],
            "--set takes section.key=value, got 'width=3'",
            "hint: --set model.width=256",
        ),
        (["flops", "tiny", "--set", "model.width"], "--set takes section.key=value", "hint: --set model.width=256"),
        (["recipes", "show", "nothing.toml"], "there is no such file", ""),
    ],
)
def test_refusals_are_short_and_exit_with_2(arguments, error, hint):
    result = manyheads(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert error in result.stderr
    assert hint in result.stderr
    assert "Traceback" not in result.stderr


def test_a_terminal_that_knows_ascii_alone(tmp_path):
    result = manyheads("flops", "tiny", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0
    assert "| total" in result.stdout


def test_figures_are_whole_on_a_narrow_screen():
    result = manyheads("flops", "big", "--batch", "64", "--length", "500", env={**os.environ, "COLUMNS": "60"})
    assert "1,811,939,328,000" in result.stdout


def test_no_colour_and_no_control_codes_when_not_on_a_terminal():
    assert "\x1b" not in manyheads("flops", "tiny").stdout


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["flops", "--help"], ["recipes", "--help"], ["recipes", "show", "--help"]]
)
def test_help_begins_with_examples_and_never_waits_for_torch(arguments):
    code = f"""
import sys
from manyheads.cli.main import main
try:
    main({arguments})
except SystemExit as stop:
    assert not stop.code, stop.code
sys.exit("torch" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    assert "Usage: manyheads" in result.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels of a GPU are compiled")
@pytest.mark.parametrize("verb", ["translate", "evaluate", "inspect"])
def test_what_needs_no_compiler_does_not_wait_for_it(verb, tmp_path):
    """PyTorch's compiler takes as long to import as PyTorch itself, and comes along with innocent calls."""
    (tmp_path / "pairs.tsv").write_text("Ein Hund.\tA dog.\n", encoding="utf-8")
    arguments = {
        "translate": ["--input", str(tmp_path / "pairs.tsv")],
        "evaluate": ["--data", str(tmp_path / "pairs.tsv")],
        "inspect": ["--text", "Ein Hund.", "--html", str(tmp_path / "look.html")],
    }
    code = f"""
import sys
from manyheads.cli.main import main
try:
    main({[verb, "de-en", *arguments[verb]]})
except SystemExit as stop:
    assert not stop.code, stop.code
sys.exit("torch._dynamo" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_version():
    assert manyheads("--version").stdout.strip() == __version__


@pytest.mark.parametrize("words", ["recipes", "train --help"])
def test_a_reader_that_leaves_early_is_no_error(words):
    line = f"{sys.executable} -m manyheads {words} | head -1"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, timeout=60)
    assert (result.stderr, result.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("message", "words", "said"),
    [
        ("n_best must be above 0, got 0", ["translate", "--n-best", "0"], "--n-best must be above 0, got 0"),
        ("n_best needs a beam, got a beam of 2", ["translate", "--n-best=5", "--beam", "2"], "--n-best needs a beam, got a beam of 2"),
        ("beam must be above 0", ["translate", "--beam", "0"], "--beam must be above 0"),
        ("a file must be readable, got n_best.txt", ["translate", "--n-best", "2"], "a file must be readable, got n_best.txt"),
        ("train.n_best is no key", ["translate", "--n-best", "2"], "train.n_best is no key"),
        ("temperature needs sample", ["translate", "--temperature", "0.5"], "--temperature needs sample"),
        ("n_best must be above 0", ["data", "distill"], "n_best must be above 0"),
    ],
)  # fmt: skip
def test_options_are_called_as_they_were_typed(message, words, said):
    assert as_typed(message, words) == said
