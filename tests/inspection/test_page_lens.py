"""View 7 in a real browser: what each layer would write."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from manyheads.inspection.lens import read_layers

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def layers(found):
    return read_layers(found)["layers"]


def test_every_layer_says_something_at_every_step(look, found, layers):
    page = look("v=lens&t=4")
    says = page.page.locator(".says").all_inner_texts()
    expected = [
        [step["candidates"][0]["text"].strip(), str(step["rank"] + 1)] for row in reversed(layers) for step in row
    ]
    assert [text.replace("␣", "").split("\n") for text in says] == expected
    top = page.page.locator(".row").nth(1).locator(".says.same").count()
    assert top == sum(choice.rank == 0 for choice in found.choices)
    assert "last norm" in page.text(".lens > .note")


def test_the_chosen_one_is_told_with_its_numbers(look, layers):
    page = look("v=lens&t=4&l=1")
    one = layers[1][3]
    numbers = [float(text) for text in page.texts(".lens .two section:first-child .number")]
    assert numbers == pytest.approx([np.exp(c["log_probability"]) for c in one["candidates"]], abs=6e-5)
    by_layer = page.texts(".by-layer .number")
    expected = [row[3] for row in reversed(layers)]
    assert [float(text) for text in by_layer[::2]] == pytest.approx(
        [np.exp(step["log_probability"]) for step in expected], abs=6e-5
    )
    assert by_layer[1::2] == [f"rank {step['rank'] + 1}" for step in expected]
    assert page.said.startswith("layer 1, step 4: predicts ‘")
    assert f"rank {one['rank'] + 1}, {np.exp(one['log_probability']):.4f}" in page.said


def test_keys_hover_and_the_address(look, layers):
    page = look("v=lens&t=2&l=0&k=encoder")
    page.page.locator(".says[aria-pressed=true]").focus()
    for key in ("ArrowUp", "ArrowRight"):
        page.page.keyboard.press(key)
        page.ready()
    assert page.said.startswith("layer 1, step 3")
    assert page.page.evaluate("document.activeElement.className").startswith("says")
    page.page.keyboard.press("]")
    page.ready()
    assert page.said.startswith("layer 2, step 3")
    assert "t=3" in page.page.url
    page.page.locator(".says").first.hover()
    assert re.fullmatch(r"0\.\d{4}", page.text(".lens > .tip b"))
    page.page.locator(".says").first.click()
    page.ready()
    assert page.said.startswith(f"layer {len(layers) - 1}, step 1")


def test_the_table_and_the_picture_hold_all_of_it(look, layers):
    page = look("v=lens")
    rows = page.table()
    assert rows[0] == ["layer", "step", "written", "rank", "probability", "says", "says_probability"]
    assert len(rows) == 1 + len(layers) * len(layers[0])
    expected = [np.exp(step["log_probability"]) for row in layers for step in row]
    np.testing.assert_allclose([float(row[4]) for row in rows[1:]], expected, atol=1e-6)
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    assert len(picture.findall(f".//{SVG}g")) == len(layers) * len(layers[0])
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_the_screen(look, width, scheme):
    page = look("v=lens&t=9", width=width, scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.page.locator(".says[aria-pressed=true]").is_visible()
