"""Every key of a recipe is explained, where people look for it."""

from importlib import import_module
from pathlib import Path

import pytest

from cli.command import status
from manyheads.errors import OptionError
from manyheads.keys import as_markdown, as_text, every_key, find_keys, parse
from manyheads.recipe import SECTIONS, TASKS, Recipe, load_recipe
from manyheads.rules import IDLE, UNUSED

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "recipe.md"


def test_every_key_has_a_meaning():
    assert [key.full_name for key in every_key() if not key.meaning] == []


def test_every_key_of_every_task_is_there():
    known = {(task, key.full_name) for key in every_key() if key.section for task in key.tasks}
    expected = {
        (task, f"{section}.{name}")
        for task, kind in TASKS.items()
        for section, table in kind.tables.items()
        for name in table.__dataclass_fields__
        if f"{section}.{name}" not in (*IDLE[task], *UNUSED[task])
    }
    assert known == expected


def test_keys_at_the_top_of_a_file_are_there(tmp_path):
    top = {key.name: key for key in every_key() if not key.section}
    assert top.keys() == {"extends"} | (Recipe.__dataclass_fields__.keys() - {"model", *SECTIONS})
    assert [key.full_name for key in find_keys("task")] == ["task"]
    assert all(f"'{task}'" in top["task"].values and f'"{task}"' in top["task"].meaning for task in TASKS)
    assert as_text(top["task"], 100).startswith('task = "translate"   [one of ')
    (tmp_path / "mine.toml").write_text('extends = "tiny"\ndescription = "Mine."\ntask = "translate"\nbase = "de-en"\n')
    mine = load_recipe(tmp_path / "mine.toml")
    assert (mine.description, mine.task, mine.base) == ("Mine.", "translate", "de-en")
    assert mine.model == load_recipe("tiny").model


@pytest.mark.parametrize(
    ("key", "tasks"),
    [
        ("train.cut", "translate"),
        ("train.replay", "translate"),
        ("train.teachers", "translate, generate, mask"),
        ("train.taught", "translate, generate, mask"),
        ("train.accumulate", "translate, parallel, classify, generate, mask"),
        ("decode.beam", "translate"),
        ("refine.lengths", "parallel"),
        ("embed.pooling", "embed, classify, mask"),
        ("generate.top_p", "generate"),
        ("mask.words", "mask"),
        ("published.bleu", "translate, parallel"),
    ],
)
def test_a_key_that_is_not_for_all_tasks_names_its_own(key, tasks):
    (found,) = find_keys(key)
    assert as_text(found, 400).endswith(f" ({tasks})")
    assert f"{found.meaning} *({tasks})* |" in as_markdown()


@pytest.mark.parametrize(
    ("unused", "key", "value", "names"),
    [
        ("train.cut", "train.simcut", 1.0, ["parallel/mask", "embed/small", "classify/small", "lm/tiny", "bert/tiny"]),
        ("train.taught", "train.teachers", ["de-en"], ["parallel/mask", "embed/small", "classify/small"]),
        ("train.accumulate", "train.accumulate", 2, ["embed/small"]),
    ],
)
def test_what_a_task_does_not_use_needs_what_it_refuses(unused, key, value, names):
    assert {load_recipe(name).task for name in names} == {task for task in TASKS if unused in UNUSED[task]}
    for name in names:
        with pytest.raises(OptionError, match=key):
            load_recipe(name, {key: value})


def test_only_tasks_that_show_a_pair_have_a_replay():
    for task in TASKS:
        if "train.replay" in UNUSED[task]:
            assert import_module(TASKS[task].trainer).Task.example(None) is None


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
        ("task", ["task"]),
        ("extends", ["extends"]),
        ("published.bleu", ["published.bleu"]),
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
