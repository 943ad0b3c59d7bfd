"""View 9 in a real browser: what each word owes, and how far attention agrees; and the same as links of view 1."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from browser import weights_in

from manyheads.inspection.attribution import attribute
from manyheads.inspection.plane import merged, numbered

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def owed(found):
    return {method: attribute(found, method) for method in ("gradient-x-input", "value-zeroing", "leave-one-out")}


@pytest.fixture(scope="module")
def path(found, tmp_path_factory):
    return found.save(tmp_path_factory.mktemp("page") / "look.html", attribution=["leave-one-out"])


def as_words(found, values, keys, signed):
    """Sums over merged keys; over merged rows sums of log-probabilities, means of shares."""
    rows = numbered(found.target.pieces[1:])
    mean = merged(values, rows, numbered(keys))
    return mean * np.bincount(rows)[:, None] if signed else mean


@pytest.mark.parametrize("method", ["gradient-x-input", "value-zeroing", "leave-one-out"])
@pytest.mark.parametrize("over", ["source", "target"])
def test_the_numbers_are_pythons_in_words_and_pieces(look, found, owed, method, over):
    keys = found.source.pieces if over == "source" else found.target.pieces[:-1]
    values = getattr(owed[method], over)
    page = look(f"v=attribution&q={method}&u={over}&w=0")
    np.testing.assert_allclose(weights_in(page.table()), values, atol=2e-5)
    page.go(f"v=attribution&q={method}&u={over}")
    np.testing.assert_allclose(weights_in(page.table()), as_words(found, values, keys, owed[method].signed), atol=4e-5)


def test_agreement_is_told_for_every_head_and_a_click_chooses_it(look, found, owed):
    page = look("v=attribution&q=leave-one-out&l=1&h=2")
    agreed = owed["leave-one-out"].agreement["source"]
    assert page.said.startswith(f"leave-one-out: agreement with layer 1, head 2: {agreed[1][3]:.2f}")
    shown = [float(text.replace("−", "-")) for text in page.texts(".agreed .switch")]
    assert shown == pytest.approx([value for layer in agreed for value in layer], abs=6e-3)
    most = max(value for layer in agreed for value in layer)
    assert page.said.endswith(f"{most:.2f}")
    page.page.locator(".agreed .switch").first.click()
    page.ready()
    assert f"agreement with layer 0, mean of heads: {agreed[0][0]:.2f}" in page.text(".agreed .lead")
    assert "not why it wrote" in page.page.locator(".attribution > .note").last.inner_text()


def test_keys_and_mouse_tell_what_is_owed(look, owed):
    page = look("v=attribution&q=leave-one-out&w=0")
    page.page.locator(".board").focus()
    for _ in range(2):  # the first cell, then the one below
        page.page.keyboard.press("ArrowDown")
        page.ready()
    value = owed["leave-one-out"].source[1, 0]
    told = float(re.search(r"attributed to ‘Ein’: (−?[\d.e−]+) nats", page.said)[1].replace("−", "-"))
    assert told == pytest.approx(value, rel=2e-3)
    assert page.text("aside .lead").startswith("‘little’ is attributed to")
    numbers = [float(text.replace("−", "-")) for text in page.texts("aside .number")]
    row = owed["leave-one-out"].source[1]
    assert numbers == pytest.approx(row[np.argsort(-np.abs(row))].tolist(), rel=2e-3, abs=1e-5)
    box = page.page.locator(".board canvas").bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "attributed to" in page.said


def test_links_of_the_first_view_can_come_from_it(look, found, owed):
    page = look("a=attribution&q=leave-one-out")
    values = np.abs(as_words(found, owed["leave-one-out"].source, found.source.pieces, signed=True))
    expected = values / values.sum(-1, keepdims=True)
    rows = page.table()[1:]
    shown = np.array([float(row[2]) for row in rows]).reshape(expected.shape)
    np.testing.assert_allclose(shown, expected, atol=1e-4)
    assert "leave-one-out, shares of the absolute values" in page.text(".align .aside")
    page.page.locator(".line.translation .word").nth(2).hover()
    assert page.said.startswith("‘dog’ is attributed to ‘Hund’")


def test_a_page_has_what_is_cheap_and_says_how_to_get_the_rest(look, found, tmp_path):
    found.save(tmp_path / "plain.html")
    page = look("v=attribution", tmp_path / "plain.html")
    assert page.page.get_by_role("group", name="Method").locator("label").all_inner_texts() == [
        "value-zeroing", "gradient × input",
    ]  # fmt: skip
    assert "--attribution leave-one-out" in page.text(".attribution")
    assert page.page.locator(".board canvas").is_visible()


def test_the_picture_is_drawn(look):
    page = look("v=attribution&q=leave-one-out")
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    assert "leave-one-out, attributed to source; nats" in picture.find(f"{SVG}title").text
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_the_screen(look, width, scheme):
    page = look("v=attribution&q=gradient-x-input&u=target", width=width, scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
