"""Recipes: strict, complete in their complaints, and read without torch."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads import OptionError, TransformerConfig, load_recipe, recipe_names
from manyheads.recipe import DecodeConfig, TrainConfig, build_recipe, recipe_from_text


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("name", recipe_names())
def test_every_preset_is_sound_and_says_what_it_is_for(name):
    recipe = load_recipe(name)
    assert recipe.description.endswith(".")
    again = build_recipe(recipe.as_tables(), where=name)
    assert again == recipe


@pytest.mark.parametrize("name", [n for n in recipe_names() if n.startswith("paper/table3/")])
def test_a_row_of_table_3_is_one_change_from_base(name):
    base, row = load_recipe("paper/base"), load_recipe(name)
    changed = {k for k, v in asdict(row.model).items() if v != asdict(base.model)[k]}
    changed |= {k for k, v in asdict(row.train).items() if v != asdict(base.train)[k]}
    companions = {
        "key_width",
        "value_width",
        "max_length",
    }  # a width of heads goes with their number, a table with its use
    assert len(changed - companions or changed & {"key_width"}) == 1
    assert row.data == base.data
    assert row.decode == base.decode


def test_precedence(write):
    child = write('extends = "tiny"\n[model]\nwidth = 64\nlayers = 3\n')
    recipe = load_recipe(child, {"model.layers": 5})
    assert (recipe.model.width, recipe.model.layers) == (64, 5)
    assert recipe.model.heads == load_recipe("tiny").model.heads
    assert recipe.train.smoothing == TrainConfig().smoothing


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("model.width", 3.7, "model.width must be a whole number, got 3.7"),
        ("model.width", True, "model.width must be a whole number, got True"),
        ("model.width", -1, "model.width must be between 1 and 65536, got -1"),
        ("model.layers", 10**9, "model.layers must be between 1 and 1000, got 1000000000"),
        ("model.bias", "false", "model.bias must be true or false, got 'false'"),
        ("model.bias", 0, "model.bias must be true or false, got 0"),
        ("model.dropout", 1, "model.dropout must be between 0 and 0.99, got 1"),
        ("model.dropout", float("nan"), "model.dropout must be between 0 and 0.99, got nan"),
        ("model.norm", "prenorm", "model.norm must be one of 'pre', 'post', got 'prenorm': did you mean 'pre'?"),
        ("model.window", [1, 2, 3], "model.window must be [a whole number, a whole number], got [1, 2, 3]"),
        ("model.window", [-1, 2], "model.window must be between 0 and 1048576, got [-1, 2]"),
        ("model.widht", 3, "model.widht is not known: did you mean 'width'?"),
        ("modle.width", 3, "modle is not a section of a recipe: did you mean 'model'?"),
        ("model.heads", 7, "in [model], heads must divide the width, got width 128 and 7 heads (or set key_width)"),
        ("model.kv_heads", 3, "in [model], heads must be a multiple of kv_heads, got 4 and 3"),
        ("model.decoder_layers", None, None),
    ],
)
def test_conversion_is_strict(key, value, complaint):
    if complaint is None:
        assert load_recipe("tiny", {key: value}) == load_recipe("tiny")
        return
    with pytest.raises(OptionError) as error:
        load_recipe("tiny", {key: value})
    assert error.value.message == f"tiny with {key} = {value!r}: {complaint}"


def test_all_faults_of_a_file_at_once(write):
    path = write('[model]\nwidth = "wide"\nlayers = 0\nhaeds = 4\n[train]\nsteps = 1.5\n[models]\n')
    with pytest.raises(OptionError) as error:
        load_recipe(path)
    assert error.value.message.splitlines() == [
        f"{path}: 5 faults",
        "  - model.width must be a whole number, got 'wide'",
        "  - model.layers must be between 1 and 1000, got 0",
        "  - model.haeds is not known: did you mean 'heads'?",
        "  - train.steps must be a whole number, got 1.5",
        "  - models is not a section of a recipe: did you mean 'model'?",
    ]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("broken.toml", "width = = 3", "a recipe must be TOML, got "),
        ("latin.toml", b"description = '\xe9'", "a recipe must be TOML, got "),
        ("flat.toml", "model = 3", "model must be a section, [model], got 3"),
        ("mute.toml", "description = 3", "description must be text, got 3"),
        ("odd.toml", "extends = 3", "extends must be the name of a recipe, got 3"),
    ],
)
def test_a_file_that_is_no_recipe(tmp_path, name, text, complaint):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(OptionError) as error:
        load_recipe(str(path))
    assert complaint in error.value.message
    assert str(path) in error.value.message


def test_names_that_are_not_there():
    with pytest.raises(OptionError) as error:
        load_recipe("paper/bsae")
    assert str(error.value).endswith("hint: did you mean 'paper/base'?")
    with pytest.raises(OptionError, match="there is no such file"):
        load_recipe("nowhere.toml")
    with pytest.raises(OptionError, match="a preset or end in"):
        load_recipe("../../../etc/passwd")


def test_a_parent_that_is_not_there_is_named_with_its_child(write):
    path = write('extends = "tiney"')
    with pytest.raises(OptionError) as error:
        load_recipe(path)
    assert error.value.message == f"{path}: extends: a recipe must be a preset or end in .toml, got 'tiney'"
    assert error.value.hint == "did you mean 'tiny'?"


def test_a_key_that_lost_its_section_is_shown_home(write):
    with pytest.raises(OptionError, match=r"layers is not a section of a recipe: it belongs under \[model\]"):
        load_recipe(write("layers = 3"))
    with pytest.raises(OptionError, match="did you mean 'extends'"):
        load_recipe(write('extend = "tiny"'))


@pytest.mark.parametrize(
    "text", ["[model]\nwidth = " + "9" * 5000, "x = " + "[" * 3000, 'extends = "\\u0000.toml"'], ids=len
)
def test_hostile_files_are_refused(write, text):
    with pytest.raises(OptionError) as error:
        load_recipe(write(text))
    assert len(error.value.message) < 600


def test_a_long_chain_of_parents_ends(tmp_path, write):
    for i in range(30):
        write(f'extends = "r{i + 1}.toml"', f"r{i}.toml")
    with pytest.raises(OptionError, match="at most 20 deep"):
        load_recipe(str(tmp_path / "r0.toml"))


def test_lists_become_tuples():
    assert TransformerConfig(window=[1, 2]) == TransformerConfig(window=(1, 2))
    assert hash(TransformerConfig(window=[1, 2]))


def test_a_path_is_as_good_as_its_name(tmp_path, write):
    assert load_recipe(Path(write('extends = "tiny"'))) == load_recipe("tiny")


def test_a_recipe_cannot_extend_itself(write):
    path = write("")
    write(f'extends = "{path}"')
    with pytest.raises(OptionError, match="must not extend itself"):
        load_recipe(path)


def test_nor_by_a_detour(tmp_path, write):
    path = write(f'extends = "../{tmp_path.name}/mine.toml"')
    with pytest.raises(OptionError, match="must not extend itself"):
        load_recipe(path)


@pytest.mark.parametrize("key", ["description.x", "description", "width", ""])
def test_a_key_to_change_is_in_a_section(key):
    with pytest.raises(OptionError, match=r"a key to change must be section\.key, got"):
        load_recipe("tiny", {key: 1})


def test_a_file_extends_its_neighbour(write):
    write("[model]\nwidth = 64\n", "parent.toml")
    assert load_recipe(write('extends = "parent.toml"', "child.toml")).model.width == 64


def test_sections_built_in_python_are_checked_alike():
    with pytest.raises(OptionError, match=r"width must be a whole number, got '512'"):
        TransformerConfig(width="512")
    with pytest.raises(OptionError, match=r"2 faults"):
        DecodeConfig(beam=0, length_penalty=-1)


@given(st.dictionaries(st.text(max_size=9), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6,
), max_size=4))  # fmt: skip
def test_no_table_makes_anything_but_a_recipe_or_a_clear_refusal(table):
    for tables in (table, {"model": table}, {"train": table, "decode": table}):
        assert refusal(tables).startswith("here: ") or build_recipe(tables, where="here")


def refusal(tables):
    try:
        build_recipe(tables, where="here")
    except OptionError as error:
        return error.message
    return ""


def test_recipes_are_read_without_torch():
    code = "import sys, manyheads; manyheads.load_recipe('base'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_which_attention_has_a_kernel_for_packed_sentences():
    assert all(load_recipe(name).model.packs_well for name in ("tiny", "small", "base", "big", "pronounce"))
    for changes in (
        {"model.score": "additive"},
        {"model.attention_dropout": 0.1},
        {"model.value_width": 32},
        {"model.key_width": 20},
    ):
        assert not load_recipe("small", changes).model.packs_well


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("embed/small", "train.smoothing", 0.5),
        ("embed/small", "train.validate_lines", 5),
        ("classify/small", "data.bpe_dropout", 0.1),
        ("lm/tiny", "train.validate_lines", 5),
        ("bert/tiny", "train.glance", 0.5),
        ("tiny", "train.glance", 0.5),
    ],
)
def test_what_does_nothing_for_a_task_is_refused(name, key, value):
    with pytest.raises(OptionError, match=rf"{key} does nothing for the task '\w+', got {value}"):
        load_recipe(name, {key: value})


@pytest.mark.parametrize(
    "text", ["a" * 90_000, "a." * 45_000, "a . " * 22_000, '"a b".' * 15_000, ("a." * 30 + "a=1\n") * 1_000]
)
def test_a_hostile_recipe_is_refused_by_a_glance(text, monkeypatch):
    """Neither the parser nor a search through it sees what would take them the square of its length."""
    monkeypatch.setattr("manyheads.recipe.tomllib.loads", None)
    with pytest.raises(OptionError, match="per line, and keys of two parts, got x"):
        recipe_from_text(text, "x")
