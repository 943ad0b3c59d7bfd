"""Two inspections as one: the difference of their weights, and what can be compared from the command line."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save

from manyheads import InputError, OptionError, inspect
from manyheads.inspection.comparison import open_model
from manyheads.inspection.switches import Head
from manyheads.modelfolder import bundled
from manyheads.storage import write_folder

TEXT = "Ein kleiner Hund schläft unter dem Tisch."


def run(*arguments):
    command = [sys.executable, "-m", "manyheads", "inspect", "de-en", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def without(found):
    return inspect(found.translator, TEXT, found.translation, off=[Head("cross", 2, 0)])


def test_the_difference_is_what_the_second_has_more(found, without):
    both = found.compare(without)
    for kind, layers in both.difference.items():
        for layer, difference in enumerate(layers):
            torch.testing.assert_close(difference, without.attention[kind][layer] - found.attention[kind][layer])
            assert difference.sum(-1).abs().max() < 1e-5  # rows add up to 1 in both
    assert both.difference["cross"][2].abs().max() == 0  # a head that is off still looks; what it says is gone
    assert both.difference["cross"][3].abs().max() > 0.01


def test_other_pieces_have_no_difference(found):
    with pytest.raises(InputError, match="got a different source"):
        _ = found.compare(inspect(found.translator, "Zwei Katzen.")).difference
    with pytest.raises(InputError, match="got a different target") as caught:
        _ = found.compare(inspect(found.translator, TEXT, "A dog.")).difference
    assert "target=" in caught.value.hint


def test_only_a_page_holds_both(found, without, tmp_path):
    assert found.compare(without).save(tmp_path / "both.html").stat().st_size > 100_000
    with pytest.raises(OptionError, match=r"saved as \.html, got"):
        found.compare(without).save(tmp_path / "both.svg")


def test_a_notebook_is_given_both(found, without):
    forms = found.compare(without)._repr_mimebundle_()
    assert forms["text/plain"] == f"{TEXT}\n{found.translation}\n{TEXT}\n{without.translation}"
    assert "cross" in forms["text/html"]


@pytest.mark.slow
def test_the_command_line_compares_heads_sentences_and_models(tmp_path):
    page = tmp_path / "both.html"
    options = ["--compare", "de-en", "--compare-text", "Zwei Katzen.", "--compare-off", "cross:2:0", "encoder:0:1"]
    done = run("--text", TEXT, "--html", str(page), *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"{page}\n")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"))[1]
    first, second = json.loads(data)["header"], json.loads(data)["other"]["header"]
    assert (first["source"]["text"], first["off"]) == (TEXT, [])
    assert (second["source"]["text"], second["off"]) == ("Zwei Katzen.", [["cross", 2, 0], ["encoder", 0, 1]])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--compare-off", "cross:2:0"], "a comparison is a page: it goes with --html alone"),
        (["--compare", "de-en", "--html", "x.html", "--term"], "a comparison is a page: it goes with --html alone"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_read(options, error):
    done = run("--text", TEXT, *options)
    assert done.returncode == 2
    assert error in done.stderr


@pytest.mark.parametrize("head", ["cross", "cross:1", "cross:a:b"])
def test_a_head_that_is_not_one_is_refused(head, tmp_path):
    done = run("--text", TEXT, "--html", str(tmp_path / "x.html"), "--compare-off", head)
    assert done.returncode == 2
    assert "a head that is switched off" in done.stderr


def test_a_checkpoint_is_a_model_of_its_run(found, tmp_path):
    run_folder = tmp_path / "run"
    shutil.copytree(bundled("de-en"), run_folder)
    weights = {name: value.clone() for name, value in found.translator.single.state_dict().items()}
    weights["encoder.blocks.0.attention.output.weight"] *= 0
    write_folder(run_folder / "checkpoints" / "step-5", {"weights.safetensors": save(weights)})
    then = open_model(str(run_folder / "checkpoints" / "step-5"), "cpu")
    assert then.single.encoder.blocks[0].attention.output.weight.abs().max() == 0
    assert inspect(then, TEXT).translator.folder.name == "step-5"
