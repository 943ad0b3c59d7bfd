"""Every key of a recipe is explained, where people look for it."""

from pathlib import Path

import pytest

from cli.command import status
from manyheads.keys import as_markdown, every_key, find_keys, parse
from manyheads.recipe import TASKS
from manyheads.rules import IDLE

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "recipe.md"


def test_every_key_has_a_meaning():
    assert [key.full_name for key in every_key() if not key.meaning] == []


def test_every_key_of_every_task_is_there():
    known = {(task, key.full_name) for key in every_key() for task in key.tasks}
    expected = {
        (task, f"{section}.{name}")
        for task, kind in TASKS.items()
        for section, table in kind.tables.items()
        for name in table.__dataclass_fields__
        if section != "published" and f"{section}.{name}" not in IDLE[task]
    }
    assert known == expected


def test_the_page_is_what_the_code_says():
    assert PAGE.read_text() == as_markdown(), "make reference"


def test_defaults_are_those_of_the_tasks():
    (width,) = find_keys("model.width")
    assert width.default["translate"] == 512
    assert width.default["generate"] == 768
    assert "`512` (translate, parallel); `768` (embed" in as_markdown()
    assert {key.tasks for key in find_keys("model.tie")} == {("translate", "parallel"), ("generate",)}
    assert "translate" not in find_keys("train.glance")[0].tasks


def test_lines_that_are_further_in_go_on():
    text = """What it is.

    one     is a thing
            of two lines
    two, three   are others
    four
    Not a key: of two words.
    """
    assert parse(text) == {"one": "is a thing of two lines", **dict.fromkeys(("two", "three", "four"), "are others")}


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("mask", ["mask.words", "mask.hidden", "mask.replaced"]),
        ("train.seed", ["train.seed"]),
        ("beam", ["decode.beam"]),
    ],
)
def test_keys_are_found(word, names, capsys):
    assert [key.full_name for key in find_keys(word)] == names
    assert status("recipes", "keys", word) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in names)
    assert max(map(len, said.splitlines())) <= 120


def test_what_is_no_key_is_refused_with_the_nearest(capsys):
    assert status("recipes", "keys", "train.epocs") == 2
    assert "did you mean 'train.epochs'?" in capsys.readouterr().err
