"""A length as people say it: pieces, or a share with a point; and what is none."""

import pytest

from cli.command import status
from decoding.test_judging import writer
from manyheads.decoding.said_length import length_options
from manyheads.errors import OptionError


@pytest.mark.parametrize(
    ("said", "options"),
    [
        (None, {}),
        ("1", {"length": 1}),
        ("12", {"length": 12}),
        ("4096", {"length": 4096}),
        ("0.8", {"stretch": 0.8}),
        (".5", {"stretch": 0.5}),
        ("2.", {"stretch": 2.0}),
        ("100.0", {"stretch": 100.0}),
    ],
)
def test_a_point_makes_it_a_share(said, options):
    assert length_options(said) == options
    assert {name: type(value) for name, value in length_options(said).items()} == {
        name: type(value) for name, value in options.items()
    }


def test_in_python_a_float_is_a_share():
    translator = writer("mask")
    assert translator.search(length=0.8) == translator.search(stretch=0.8)
    assert (translator.search(length=8).length, translator.search(length=8).stretch) == (8, 1.0)


@pytest.mark.parametrize(
    "said", ["", "x", "0", "-3", "4097", "9" * 5_000, "0.0", "-0.5", "0.009", "100.1", "1.e999", "nan.", "inf", "1e3", "1,5"]
)  # fmt: skip
def test_what_is_no_length_is_refused_with_both_rules(said):
    with pytest.raises(OptionError, match=r"^length must be a number of pieces from 1 to 4,096, or a share") as refusal:
        length_options(said)
    assert refusal.value.hint == "12 means 12 pieces, 0.8 means 0.8 times the likeliest length"
    assert len(refusal.value.message) < 250


def test_at_the_command_line_it_is_called_as_it_was_typed(capsys):
    assert status("translate", "de-en", "--length", "0.0001") == 2
    said = capsys.readouterr().err
    assert "--length must be a number of pieces" in said
    assert "got '0.0001'" in said
