"""View 12 in a real browser: two inspections side by side, and what their weights differ by."""

import xml.etree.ElementTree as ElementTree
from difflib import SequenceMatcher

import numpy as np
import pytest
from browser import made_up

from manyheads.inspection.api import inspect
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.singlefile import single_file
from manyheads.inspection.switches import Head

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
LONGER = "Ein großer Hund schläft oft unter dem alten Tisch."
HOSTILE = '</script><img src=x onerror=alert(1)> \u202eelif\u202c "quoted" <b>'


@pytest.fixture(scope="module")
def without(found):
    return inspect(found.translator, TEXT, found.translation, off=[Head("cross", 2, 0)])


@pytest.fixture(scope="module")
def longer(found):
    return inspect(found.translator, LONGER)


@pytest.fixture(scope="module")
def heads(found, without, tmp_path_factory):
    return found.compare(without).save(tmp_path_factory.mktemp("page") / "heads.html")


@pytest.fixture(scope="module")
def sentences(found, longer, tmp_path_factory):
    return found.compare(longer).save(tmp_path_factory.mktemp("page") / "sentences.html")


def of_head(inspection, kind, layer, head):
    """The weights as the page has them, in 16 bits."""
    return inspection.attention[kind][layer][head].numpy().astype("float16").astype("float64")


def test_every_number_is_that_of_the_two_models(look, heads, found, without):
    page = look("v=compare&w=0&k=cross&l=3&h=1", heads)
    rows = page.table()
    assert rows[0] == ["kind", "layer", "head", "query", "key", "A", "B", "B − A"]
    assert rows[1][:3] == ["cross", "3", "1"]
    a, b = of_head(found, "cross", 3, 1), of_head(without, "cross", 3, 1)
    numbers = np.array([[float(cell.lstrip("'")) for cell in row[5:]] for row in rows[1:]])
    np.testing.assert_allclose(numbers, np.stack([a.ravel(), b.ravel(), (b - a).ravel()], 1), atol=1e-6)


def test_a_head_that_is_off_is_named_and_what_follows_it_looks_elsewhere(look, heads, found, without):
    page = look("v=compare&w=0", heads)
    assert "cross 2.0" in page.text(".who-is[aria-label=B]")
    assert "without" not in page.text(".who-is[aria-label=A]")
    assert "Their attention is the same" in page.text(".compare .note")  # layer 2 comes before anything could change
    cells = page.page.locator(".apart .switch").all()
    told = {cell.get_attribute("aria-label").split(": ")[0]: cell.get_attribute("aria-label") for cell in cells}
    for kind, layers in found.attention.items():
        for layer in range(len(layers)):
            for head in range(4):
                a, b = of_head(found, kind, layer, head), of_head(without, kind, layer, head)
                apart = np.abs(b - a).sum(1).mean() / 2
                shown = float(told[f"{kind} layer {layer}, head {head}"].split(": ")[1])
                assert shown == pytest.approx(apart, abs=6e-5)


def test_a_click_shows_the_head_that_differs_most(look, heads, found, without):
    page = look("v=compare", heads)
    page.page.get_by_role("button", name="Show the most different head").click()
    page.page.wait_for_selector(".apart [aria-current]")
    name = page.page.locator(".apart [aria-current]").get_attribute("aria-label")
    kind, _, layer, _, head = name.split(":")[0].replace(",", "").split()
    distances = {
        (kind, layer, head): np.abs(of_head(without, kind, layer, head) - of_head(found, kind, layer, head)).sum(1).mean()
        for kind, layers in found.attention.items() for layer in range(len(layers)) for head in range(4)
    }  # fmt: skip
    assert max(distances, key=distances.get) == (kind, int(layer), int(head))


def test_only_what_both_have_is_subtracted(look, sentences, found, longer):
    page = look("v=compare&w=0&l=2&h=0", sentences)
    rows = page.table()[1:]
    pieces = [
        [[piece.text for piece in one.target.pieces[1:]], [piece.text for piece in one.source.pieces]]
        for one in (found, longer)
    ]
    common = [
        [(block.a + n, block.b + n) for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks() for n in range(block.size)]
        for one, other in zip(*pieces, strict=True)
    ]  # fmt: skip
    a, b = of_head(found, "cross", 2, 0), of_head(longer, "cross", 2, 0)
    expected = [b[rb, cb] - a[ra, ca] for ra, rb in common[0] for ca, cb in common[1]]
    np.testing.assert_allclose([float(row[7].lstrip("'")) for row in rows], expected, atol=1e-6)
    told = f"{len(common[0])} of {len(pieces[1][0])} rows and {len(common[1])} of {len(pieces[1][1])} columns"
    assert told in page.text(".compare .note")
    assert page.page.locator(".who-is ins").all_inner_texts()[:3] == ["großer", "oft", "alten"]


def test_one_selection_for_both_sides(look, sentences, found, longer):
    page = look("v=compare&w=0&l=2&h=0", sentences)
    page.page.get_by_role("region", name="B", exact=True).locator(".board").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):  # to ‘dog’ → ‘Hund’
        page.page.keyboard.press(key)
        page.ready()
    a, b = of_head(found, "cross", 2, 0)[2, 2], of_head(longer, "cross", 2, 0)[2, 2]
    assert page.said == (
        f"‘dog’ → ‘Hund’: A {a:.4f}, B {b:.4f}, difference {b - a:+.4f} (cross layer 2, head 0)".replace("-", "−")
    )
    assert "t=3" in page.page.url  # the same word is chosen in every other view
    assert "s=2" in page.page.url


def test_what_only_one_side_has_is_told_as_such(look, sentences, longer):
    page = look("v=compare&w=0&l=2&h=0", sentences)
    board = page.page.get_by_role("region", name="B", exact=True).locator(".board")
    board.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):  # ‘big’ → ‘großer’
        page.page.keyboard.press(key)
        page.ready()
    weight = of_head(longer, "cross", 2, 0)[1, 1]
    assert page.said == f"‘big’ → ‘großer’: B {weight:.4f}, only on one side (cross layer 2, head 0)"


def test_another_model_is_compared_as_far_as_it_goes(look, found, tmp_path):
    (tmp_path / "other.html").write_bytes(single_file(make_bundle(found), made_up(2, 2, 6, 5)))
    page = look("v=compare&l=1&h=1", tmp_path / "other.html")
    assert "0 of" in page.text(".compare .note")
    assert page.page.get_by_role("region", name="B", exact=True).locator("canvas").first.is_visible()
    assert page.page.get_by_role("region", name="B − A").count() == 0
    page.go("v=compare&l=3")
    assert page.text(".compare .note") == "B: no such layer or head, or its weights were left out of this page."


def test_pictures_hold_all_three(look, heads):
    page = look("v=compare&l=3&h=1", heads)
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A", "B", "B − A"} <= set(texts)
    assert any(text.startswith("B  de-en without cross 2.0: ") for text in texts)
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


def test_a_page_of_one_has_no_such_tab(look):
    page = look()
    assert page.page.get_by_role("tab", name="Compare").count() == 0
    page.go("v=compare")
    assert "holds one inspection" in page.text(".compare .lead")


def test_hostile_texts_do_nothing(look, found, tmp_path):
    path = found.compare(inspect(found.translator, HOSTILE, HOSTILE)).save(tmp_path / "hostile.html")
    page = look("v=compare&w=0", path)
    assert "</script><img src=x onerror=alert(1)>" in page.text(".who-is[aria-label=B]")
    assert page.page.evaluate("document.querySelectorAll('main img, main script, main style').length") == 0
    ElementTree.fromstring(page.saved("Save SVG"))
    assert page.dialogs == []


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_the_screen(look, sentences, width, scheme):
    page = look("v=compare", sentences, width=width, scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
