"""Signs of life are for terminals, and for what is not seen anyway."""

import io
import os
import subprocess
import sys

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


def test_a_person_at_a_terminal_is_told_what_to_do_and_answered_line_by_line():
    theirs, ours = os.openpty()
    command = [sys.executable, "-m", "manyheads", "translate", "de-en", "--device", "cpu", "--beam", "1"]
    with subprocess.Popen(command, stdin=ours, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"type a sentence and press Enter to have it translated; Ctrl-D ends\n"
        os.write(theirs, b"Guten Tag!\n")
        assert process.stdout.readline().strip()  # while more may follow
        os.write(theirs, b"\x04")
        assert process.communicate(timeout=60) == (b"", b"")
    os.close(theirs)
    os.close(ours)
