"""Signs of life are for terminals, and for what is not seen anyway."""

import io

import pytest
from rich.console import Console

from manyheads.cli import alive


@pytest.fixture
def terminal(monkeypatch):
    """What is drawn on it."""
    screen = io.StringIO()
    monkeypatch.setattr(alive, "Console", lambda file: Console(file=screen, force_terminal=True, width=80))
    return screen


def test_it_is_said_how_far_it_is(terminal):
    with alive.counted("lines translated", seen=False) as count:
        for done in range(1, 1_026):
            count(done)
    assert "1,020 lines translated" in terminal.getvalue()
    with alive.counting("pairs") as count:
        count(3, 4_000)
    assert "3 of 4,000 pairs" in terminal.getvalue()


def test_what_is_seen_is_not_said(terminal):
    with alive.counted("lines translated", seen=True) as count:
        count(10)
    assert terminal.getvalue() == ""


def test_elsewhere_nothing_is_said(capsys):
    with alive.working("scoring"), alive.counting("pairs") as count:
        count(1, 2)
    assert capsys.readouterr() == ("", "")
