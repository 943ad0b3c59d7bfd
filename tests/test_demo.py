"""The demo opens its page for a person who sits in front of a screen, and for nobody else."""

import io
import sys

import pytest
from rich.console import Console

from manyheads.demo import somebody_looks

SCREEN = {"DISPLAY": ":0"}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("out", "into", "variables", "looks"),
    [
        (Terminal(), Terminal(), SCREEN, True),
        (Terminal(), Terminal(), {"WAYLAND_DISPLAY": "wayland-0"}, True),
        (Terminal(), Terminal(), {}, False),
        (Terminal(), Terminal(), SCREEN | {"CI": "true"}, False),
        (io.StringIO(), Terminal(), SCREEN, False),
        (Terminal(), io.StringIO(), SCREEN, False),
    ],
)
def test_a_page_is_opened_where_somebody_looks(monkeypatch, out, into, variables, looks):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "stdin", into)
    assert somebody_looks(Console(file=out)) is looks
