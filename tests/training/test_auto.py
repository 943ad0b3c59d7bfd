"""Who names no recipe gets one that suits the number of pairs."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from manyheads import load_recipe
from manyheads.errors import OptionError
from manyheads.text.corpus import check_paths
from manyheads.training import auto
from training.corpus import write_pairs


@pytest.mark.parametrize(
    ("pairs", "name"),
    [(0, "tiny"), (4_999, "tiny"), (5_000, "small"), (300_000, "small"), (1_000_000, "base"), (10**8, "big")],
)
def test_the_recipe_grows_with_the_pairs(pairs, name):
    assert auto.recipe_name(pairs) == name
    assert load_recipe(name)


def test_the_guide_names_the_numbers():
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "train.md").read_text(encoding="utf-8")
    numbers = ", ".join(f"below {most:,} `{name}`" for most, name in auto.SIZES)
    assert f"{numbers}, else `{auto.LARGEST}`" in " ".join(guide.split())


TMX = """<tmx version="1.4"><header/><body>{}</body></tmx>"""
UNIT = '<tu><tuv xml:lang="de"><seg>a</seg></tuv><tuv xml:lang="en"><seg>b</seg></tuv></tu>'


def test_pairs_of_every_format_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(auto, "CHUNK", 7)  # marks lie across chunks
    files = {
        "a.tsv": "a\tb\n" * 5,
        "b.jsonl": '{"source": "a", "target": "b"}\n' * 4,
        "c.tmx": TMX.format(UNIT * 3),
        "d.po": 'msgid "a"\nmsgstr "b"\n\n' * 2,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "e.de.gz").write_bytes(gzip.compress(b"a\n" * 6))
    (tmp_path / "e.en.gz").write_bytes(gzip.compress(b"b\n" * 6))
    counted = {name: auto.count_pairs(check_paths(str(tmp_path / name), "--train")) for name in files}
    assert counted == {"a.tsv": 5, "b.jsonl": 4, "c.tmx": 3, "d.po": 2}
    both = [str(tmp_path / name) for name in ("a.tsv", "e.de.gz", "e.en.gz")]
    assert auto.count_pairs(check_paths(both, "--train")) == 11


def test_standard_input_cannot_be_counted():
    with pytest.raises(OptionError, match="standard input, which can be read only once"):
        auto.count_pairs(check_paths("-", "--train"))


def test_the_command_says_which_it_is(tmp_path):
    pairs = write_pairs(tmp_path / "train.tsv", 120)
    command = [
        sys.executable, "-m", "manyheads", "train", "--train", pairs, "--out", str(tmp_path / "run"), "--device", "cpu",
        "--set", "train.steps=2", "--set", "model.width=32", "--set", "model.feedforward=32",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "recipe: tiny, for about 120 pairs" in done.stderr
    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=True)
    assert "nothing to do" in again.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["step"] == 2
