"""In a notebook: a widget that asks the kernel, the page in a frame, or plain text, whichever can be shown."""

import html
import sys

import numpy as np
import pytest
from browser import launched
from parallels import make_parallel

from manyheads import OptionError, Translator, inspect
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.notebook import framed, widget

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def found():
    return inspect(Translator.load("de-en", "cpu"), TEXT)


@pytest.fixture
def shown(found):
    """A widget, and what it has sent."""
    made, sent = widget(found), []
    made.send = lambda message, buffers=None: sent.append(message)
    return made, sent


def test_every_form_goes_along(found):
    forms = found._repr_mimebundle_()
    assert forms["text/plain"] == f"{TEXT}\n{found.translation}"
    assert forms["text/html"].startswith("<iframe sandbox=")
    assert forms[VIEW]["model_id"]


def test_without_anywidget_there_is_the_frame(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "manyheads.inspection.widget", raising=False)
    assert found._repr_mimebundle_().keys() == {"text/plain", "text/html"}
    with pytest.raises(OptionError, match="widgets need anywidget"):
        widget(found)


def test_a_widget_has_the_bundle(found, shown):
    bundle = make_bundle(found)
    assert shown[0].header["translation"] == found.translation
    assert shown[0].header["live"] is True
    assert shown[0].planes.keys() == bundle.planes.keys()
    assert np.array_equal(np.frombuffer(shown[0].planes["cross/2"], "float16"), bundle.planes["cross/2"].ravel())


def test_it_answers_as_the_server_does(found, shown):
    made, sent = shown
    number = made.header["number"]
    made.hear(made, {"type": "importance", "number": number}, [])
    assert len(sent[-1]["heads"]) == 56
    worst = min(sent[-1]["heads"], key=lambda head: head["change"])
    off = [{key: worst[key] for key in ("kind", "layer", "head")}]
    made.hear(made, {"type": "inspect", "text": TEXT, "off": off, "against": number}, [])
    assert made.header["off"] == (tuple(off[0].values()),)
    assert made.header["against"]["log_probability"] < found.log_probability
    made.hear(made, {"type": "inspect", "text": " "}, [])
    assert sent[-1]["type"] == "refused"
    assert "needs a text to read" in sent[-1]["error"]


@pytest.mark.parametrize(
    ("writes", "tells"), [("mask", "iterations length"), ("end", "iterations"), ("graph", "length")]
)
def test_a_model_that_writes_all_at_once_is_asked_there_too(writes, tells):
    found = inspect(make_parallel(writes), TEXT)
    assert found._repr_mimebundle_()[VIEW]["model_id"]
    made, sent = widget(found), []
    made.send = lambda message, buffers=None: sent.append(message)
    assert made.tells == tells
    before = made.header
    told = {"iterations": 2} if writes != "graph" else {"length": "3"}
    made.hear(
        made,
        {
            "type": "inspect",
            "text": TEXT,
            "off": [{"kind": "cross", "layer": 0, "head": 1}],
            "against": before["number"],
            **told,
        },
        [],
    )
    assert not sent
    assert made.header["number"] == before["number"] + 1
    assert made.header["against"]["number"] == before["number"]
    if writes == "graph":
        assert len(made.header["graph"]["path"]) == 3
    else:
        assert len(made.header["tries"][0]["iterations"]) == 2
    made.hear(made, {"type": "inspect", "text": TEXT, "prefix": "A"}, [])
    assert sent[-1]["type"] == "refused"


def test_the_frame_draws_and_can_reach_nothing(found, tmp_path):
    (tmp_path / "host.html").write_text(f"<!doctype html><title>host</title>{framed(found)}", encoding="utf-8")
    with launched() as browser:
        page, asked, said = browser.new_page(), [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((tmp_path / "host.html").as_uri())
        frame = page.frames[1]
        frame.wait_for_selector("[data-state=ready]")
        assert found.translation in frame.locator("header").inner_text()
        frame.get_by_role("tab", name="Matrix").click()
        frame.wait_for_selector("[data-state=ready] canvas")
        assert frame.evaluate("origin") == "null"
        assert [url for url in asked if not url.startswith(("file:", "about:", "data:"))] == []
        assert said == []


def test_text_cannot_leave_the_frame(found):
    hostile = inspect(found.translator, '"></iframe><script>alert(1)</script>')
    frame = framed(hostile)
    assert frame.count("<") == 2  # of the frame itself
    assert "<!doctype html>" in html.unescape(frame)
