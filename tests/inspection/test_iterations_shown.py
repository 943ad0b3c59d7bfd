"""Iterations and graphs outside the page: in a terminal, as pictures, by the command."""

import json
import re
import xml.etree.ElementTree as ElementTree
from io import StringIO
from math import exp

import pytest
from parallels import TEXT, WAYS, save_parallels
from rich.cells import cell_len
from rich.console import Console

from cli.command import status
from manyheads import inspect
from manyheads.errors import OptionError
from manyheads.inspection.iterationlines import blocks, draw_at_once, shown
from manyheads.inspection.notebook import forms_of

SVG = "{http://www.w3.org/2000/svg}"
OPTIONS = {"mask": {"length": 9, "iterations": 4}, "end": {"iterations": 4}, "graph": {"length": 5}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return save_parallels(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def found(folders):
    return {writes: inspect(folders[writes], TEXT, **OPTIONS[writes]) for writes in WAYS}


def drawn(inspection, width=200):
    out = StringIO()
    draw_at_once(Console(file=out, width=width, highlight=False), inspection)
    return out.getvalue()


@pytest.mark.parametrize("writes", ["mask", "end"])
def test_a_terminal_has_a_line_for_each_iteration(found, writes):
    attempt = found[writes].taken
    lines = drawn(found[writes], 400).splitlines()
    for n, (line, one) in enumerate(zip(lines[1:], attempt.iterations, strict=False), 1):
        assert line.startswith(f"{n:>2}  {sum(one.written):>3} of {attempt.length}")
        assert f"least sure {exp(min(one.log_probability)):.2f}" in line
        assert line.count("▢") == sum(one.written)
        cells = [shown(one, place) for place in range(attempt.length)]
        at = 0
        for cell in cells:  # in the order of their places
            at = line.index(cell, at) + len(cell)
        assert [cell.endswith("*") for cell in cells] == one.changed
    assert "masked before, written in this iteration" in lines[-1]


def test_what_does_not_fit_stands_below(found):
    for width in (60, 90):
        text = drawn(found["mask"], width)
        assert all(cell_len(line) <= width for line in text.splitlines())
        one = found["mask"].taken.iterations[-1]
        assert all(shown(one, place).strip() in text for place in range(9))
    parts = list(blocks(10, 20, [4, 4, 4, 30, 4]))
    assert parts == [(0, 2), (2, 3), (3, 4), (4, 5)]


def test_lengths_are_told_with_what_they_scored(folders):
    inspection = inspect(folders["mask"], TEXT, iterations=2, lengths=3)
    lines = drawn(inspection).splitlines()[1:4]
    for line, one in zip(lines, sorted(inspection.tries, key=lambda one: -one.score), strict=True):
        assert f"{one.length} places" in line
        assert f"P {exp(one.length_log_probability):.3f}" in line
    assert [line.startswith("●") for line in lines] == [True, False, False]


def test_a_path_is_told_vertex_by_vertex(found):
    graph = found["graph"].graph
    lines = drawn(found["graph"]).splitlines()
    assert lines[0] == f"{len(graph.vertices)} vertices, a path through 5 of them"
    for n, line in zip(graph.path, lines[2:], strict=False):
        assert line.split()[0] == str(n)
        assert f"{exp(graph.vertices[n].log_probability):.3f}" in line
    assert re.search(r"^●   5 words", drawn(found["graph"]), re.MULTILINE)


@pytest.mark.parametrize("writes", WAYS)
def test_pictures_have_every_word(found, writes, tmp_path):
    path = found[writes].save(tmp_path / "look.svg", view="iterations")
    texts = ["".join(one.itertext()) for one in ElementTree.fromstring(path.read_bytes()).iter(f"{SVG}text")]
    if writes == "graph":
        assert sum("⟨" in text for text in texts) == 2
        assert len(texts) >= len(found[writes].graph.vertices)
    else:
        assert sum(text.startswith("iteration ") for text in texts) == 4
        assert len(texts) >= 4 * found[writes].taken.length
    assert found[writes].save(tmp_path / "look.png", view="iterations").read_bytes().startswith(b"\x89PNG")
    found[writes].save(tmp_path / "map.svg", view="map")
    found[writes].save(tmp_path / "lines.svg", view="lines")


def test_others_have_no_iterations(tmp_path):
    with pytest.raises(OptionError, match="all tokens at once"):
        inspect("de-en", "Ein Hund.").save(tmp_path / "look.png", view="iterations")


@pytest.mark.parametrize("writes", WAYS)
def test_the_command_shows_them(found, folders, writes, capsys, tmp_path):
    flags = [word for name, value in OPTIONS[writes].items() for word in (f"--{name}", str(value))]
    base = ("inspect", str(folders[writes]), "--text", TEXT, *flags)
    assert status(*base) == 0
    said = capsys.readouterr().out
    assert TEXT in said
    assert ("vertices, a path" if writes == "graph" else "least sure") in said
    assert status(*base, "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == found[writes].as_json()
    assert status(*base, "--attention", "decoder", "--term", "--html", str(tmp_path / "look.html")) == 0
    assert "decoder self-attention: layer 1" in capsys.readouterr().out
    assert (tmp_path / "look.html").stat().st_size > 100_000
    assert status(*base, "--svg", str(tmp_path / "look.svg"), "--view", "iterations") == 0
    if writes != "graph":
        assert status(*base, "--iteration", "1", "--json", "-") == 0
        assert json.loads(capsys.readouterr().out)["iteration"] == 1


def test_the_command_refuses_what_is_of_other_models(folders, capsys, tmp_path):
    base = ("inspect", str(folders["mask"]), "--text", TEXT)
    html = ("--html", str(tmp_path / "x.html"))
    cases = [
        (("--target", "A dog."), "takes no target"),
        (("--beam", "3"), "beam is for models that write token by token"),
        (("--compare", "de-en", *html), "--compare is for models that write token by token"),
        (("--data", str(tmp_path / "none.tsv")), "--data is for models that write token by token"),
    ]
    for words, complaint in cases:
        assert status(*base, *words) == 2
        assert complaint in capsys.readouterr().err
    assert status("inspect", str(folders["mask"]), "--replay", *html) == 2
    assert "--replay is for models that write token by token" in capsys.readouterr().err


@pytest.mark.parametrize("writes", WAYS)
def test_a_notebook_has_the_page_in_a_frame_and_as_a_widget(found, writes):
    forms = forms_of(found[writes])
    assert set(forms) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert forms["text/html"].startswith("<iframe")
    assert found[writes].translation in forms["text/plain"]
