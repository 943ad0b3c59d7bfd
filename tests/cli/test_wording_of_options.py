"""What an option is called in a message: as it was typed."""

import pytest

from manyheads.cli.main import as_typed


@pytest.mark.parametrize(
    ("words", "message", "said"),
    [
        ("translate m --length 0.5", "stretch is for models that write at once, got 0.5", "--length is for models that write at once, got 0.5"),
        ("translate m --mbr 4", "sample is for models that write token by token", "--mbr is for models that write token by token"),
        ("translate m --n-best 2", "n_best is at most the beam", "--n-best is at most the beam"),
        ("translate m", "stretch is for others", "stretch is for others"),
    ],
)  # fmt: skip
def test_as_it_was_typed(words, message, said):
    assert as_typed(message, words.split()) == said
