"""View 11 in a real browser: the walk through the model, with the numbers that Python has."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from browser import made_up
from test_trace import build

from manyheads.inspection.api import inspect
from manyheads.inspection.flow import CELLS, flow
from manyheads.inspection.singlefile import single_file
from manyheads.inspection.switches import Head

HOSTILE = '</script><img src=x onerror=alert(1)> \u202eelif\u202c "quoted" <b>'


@pytest.fixture(scope="module")
def walk(found):
    source, target = ([piece.id for piece in side.pieces] for side in (found.source, found.target))
    return flow(found.translator.single, source, target[:-1])


def strips(page):
    """{name: [length, numbers …]} of the rows that are shown."""
    rows = [row for row in page.table()[1:] if len(row) == 3 + CELLS]
    return {row[1]: [float(cell.lstrip("'")) for cell in row[2:]] for row in rows}


def test_it_begins_at_the_pieces_and_ends_at_the_word(look, found):
    page = look("v=flow")
    assert page.said.startswith("1 of 149: Encoder: pieces, for ‘Ein’")
    assert [int(text) for text in page.texts(".chips small")] == [piece.id for piece in found.source.pieces]
    page.go("v=flow&k=decoder&g=word&t=3")
    assert page.said.startswith("149 of 149: Decoder: the word, for ‘little’, which writes ‘dog’")
    assert f"probability {np.exp(found.choices[2].log_probability):.4f}" in page.text(".rows")


def test_what_is_added_is_what_the_model_added(look, walk):
    page = look("v=flow&k=encoder&l=2&g=add&s=2")
    shown = strips(page)
    for name, part in (("x", "x"), ("y", "y"), ("x + y", "sum")):
        np.testing.assert_allclose(shown[name], walk.source[f"2/attention/{part}"][2], rtol=1e-5)
    page.go("v=flow&k=decoder&l=1&g=hidden&t=4")
    shown = strips(page)
    np.testing.assert_allclose(shown["h"], walk.target["1/feedforward/hidden"][3], rtol=1e-5)
    assert f"{walk.target['1/feedforward/active'][3][0]:.0f} of 1,024 are not 0" in page.text(".rows")


def test_scores_weights_and_values_are_those_of_the_head(look, found):
    page = look("v=flow&k=cross&l=2&h=1&g=softmax&t=3")
    inside = found.trace.cross[2].inside()
    numbers = [[float(text.replace("−", "-")) for text in one.locator(".number").all_inner_texts()] for one in page.page.locator(".rows .bars").all()]  # fmt: skip
    np.testing.assert_allclose(numbers[0], inside.scores[1, 2], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(numbers[1], inside.weights[1, 2], atol=1e-4)
    page.go("v=flow&k=cross&l=2&h=1&g=mix&t=3")
    output = (inside.weights[1] @ inside.v[1])[2]
    shown = strips(page)["head 1"]
    np.testing.assert_allclose(shown, [output.norm(), *output[:CELLS]], rtol=1e-4, atol=1e-5)


def test_a_head_that_is_off_hands_on_its_mean_or_nothing(look, found, tmp_path):
    off = [Head("cross", 2, 1)]
    for instead, sentence in (("mean", "its mean is passed on"), ("zero", "0 is passed on")):
        here = inspect(found.translator, found.source.text, found.translation, off=off, instead=instead)
        here.save(tmp_path / "off.html")
        page = look("v=flow&k=cross&l=2&h=1&g=mix&t=3", at=tmp_path / "off.html")
        assert sentence in page.text(".rows")
        page.go("v=flow&k=cross&l=2&h=1&g=join&t=3")
        given = np.array(here.off_means()[0] if instead == "mean" else [0.0] * 64)
        np.testing.assert_allclose(
            strips(page)["head 1"], [np.linalg.norm(given), *given[:CELLS]], rtol=1e-4, atol=1e-6
        )


def test_logits_and_probabilities_are_those_of_the_step(look, found):
    page = look("v=flow&k=decoder&g=logits&t=3")
    best = found.trace.logits[2].topk(10).values
    logits = [float(text) for text in page.texts(".rows .number")]
    np.testing.assert_allclose(logits, best, rtol=1e-3)
    page.go("v=flow&k=decoder&g=choice&t=3")
    probabilities = [float(text) for text in page.texts(".rows .number")]
    np.testing.assert_allclose(probabilities, found.trace.logits[2].softmax(-1).topk(10).values, atol=1e-4)


def test_arrow_keys_walk_and_choose_the_word(look):
    page = look("v=flow")
    page.page.locator(".substeps [tabindex='0']").focus()
    for key, begins in (
        ("ArrowRight", "2 of 149: Encoder: vectors, for ‘Ein’"),
        ("ArrowDown", "2 of 149: Encoder: vectors, for ‘kleiner’"),
        ("ArrowRight", "3 of 149: Encoder: + position, for ‘kleiner’"),
        ("ArrowRight", "4 of 149: Encoder, layer 0, attention: norm, for ‘kleiner’"),
        ("]", "15 of 149: Encoder, layer 1, attention: norm, for ‘kleiner’"),
        ("ArrowLeft", "14 of 149: Encoder, layer 0, feed-forward: add, for ‘kleiner’"),
    ):
        page.page.keyboard.press(key)
        page.ready()
        assert page.said.startswith(begins)
    assert "g=onto" in page.page.url
    assert "s=1" in page.page.url


def test_a_box_of_the_figure_leads_there_and_tells_how_much_it_changes(look, walk):
    page = look("v=flow&s=2&t=3")
    box = page.page.locator(".towers .box", has_text="cross-attention").first
    y, x = walk.target["0/cross/y"][2][0], walk.target["0/cross/x"][2][0]
    about = box.locator("title").text_content()
    assert about.startswith("cross layer 0, cross-attention: adds ")
    assert [float(text) for text in (about.split()[5], about.split()[-1])] == pytest.approx([y, x], rel=1e-3)
    box.click()
    page.ready()
    assert "Decoder, layer 0, cross-attention: norm" in page.said


def test_table_and_pictures(look):
    page = look("v=flow&k=encoder&l=2&g=mix&s=2")
    assert page.table()[0] == ["row", "name", "length", *map(str, range(CELLS))]
    for address in ("v=flow", "v=flow&k=encoder&l=2&g=mix&s=2", "v=flow&k=decoder&g=scores"):
        page.go(address)
        ElementTree.fromstring(page.saved("Save SVG"))
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


OPTIONS = {
    "post, learned, bias": {"norm": "post", "positions": "learned", "max_length": 32, "bias": True},
    "rotary, grouped, swiglu, rms": {
        "norm": "pre", "positions": "rotary", "kv_heads": 2, "activation": "swiglu", "normaliser": "rms", "qk_norm": True,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_other_models_are_told_as_they_are(look, found, tmp_path, options):
    """The page of a model with other options: its stages, its formulas, and numbers at each of them."""
    translator = found.translator
    other = build(options | {"layers": 1, "tie": "none"}, translator.vocabulary.sizes)
    recipe = replace(translator.recipe, decode=replace(translator.recipe.decode, alignment=""))
    swapped = type(translator)(other.eval(), translator.vocabulary, recipe)
    inspect(swapped, "Ein Hund.", "A dog.").save(tmp_path / "other.html")
    page = look("v=flow", tmp_path / "other.html")
    told = ""
    for _ in range(int(page.said.split(" of ")[1].split(":")[0]) - 1):
        page.page.get_by_role("button", name="→").click()
        page.ready()
        told += page.text(".walk")
        assert page.page.locator(".rows > *").count() > 0
    assert "NaN" not in told
    assert "undefined" not in told
    assert ("add and norm" in told) == (options["norm"] == "post")
    assert ("+ position" in told) == (options["positions"] != "rotary")
    assert ("rotated by their positions" in told) == (options["positions"] == "rotary")
    assert ("query heads share each" in told) == ("kv_heads" in options)
    assert ("each is multiplied by a gate" in told) == ("activation" in options)


def test_a_page_without_it_says_so(look, tmp_path):
    bundle = made_up(1, 2, 4, 4)
    (tmp_path / "small.html").write_bytes(single_file(bundle))
    assert "left out of this page" in look("v=flow", tmp_path / "small.html").text(".flow")


@pytest.mark.slow
def test_hostile_texts_do_nothing(look, found, tmp_path):
    path = inspect(found.translator, HOSTILE, HOSTILE).save(tmp_path / "hostile.html")
    page = look("v=flow", path)
    for address in ("v=flow&k=cross&l=1&g=project&s=2", "v=flow&k=decoder&g=word&t=9"):
        page.go(address)
        assert page.page.evaluate("document.querySelectorAll('main img, main script, main style').length") == 0
        ElementTree.fromstring(page.saved("Save SVG"))
        assert page.dialogs == []


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_the_screen(look, width, scheme):
    for address in ("v=flow", "v=flow&k=cross&l=1&g=mix", "v=flow&k=encoder&l=1&g=add"):
        page = look(address, width=width, scheme=scheme)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
