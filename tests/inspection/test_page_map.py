"""View 4 in a real browser: every head has its thumbnail and its numbers, in the order that is asked for."""

import base64
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from browser import KINDS, assert_address_holds, made_up

from manyheads.inspection.api import inspect
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.singlefile import single_file
from manyheads.inspection.summaries import summaries
from manyheads.inspection.switches import Head

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
MEASURES = ["entropy", "focus", "distance", "ends", "previous", "same", "next"]
SVG = "{http://www.w3.org/2000/svg}"


def every_head(found):
    """{(kind, layer, head): {measure: number}}, layer by layer."""
    return {
        (kind, layer, head): {name: values[head] for name, values in numbers.items()}
        for kind, layers in summaries(found).items()
        for layer, numbers in enumerate(layers)
        for head in range(len(numbers["entropy"]))
    }


def named(page):
    """The heads in the order of the screen, as their labels name them."""
    labels = page.page.locator(".thumb").evaluate_all("(all) => all.map((it) => it.getAttribute('aria-label'))")
    parts = [label.split(", ") for label in labels]
    return [(kind, int(layer.split()[1]), int(head.split()[1])) for kind, layer, head, *_ in parts]


def thumb(page, kind, layer, head):
    return page.page.locator(f".thumb[aria-label^='{kind}, layer {layer}, head {head}']")


def pixels(page, kind, layer, head):
    """(height, width, 4) of a thumbnail's own canvas."""
    drawn = thumb(page, kind, layer, head).evaluate("""(it) => {
        const canvas = it.querySelector('canvas');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return [canvas.height, canvas.width, [...data]];
    }""")
    return np.array(drawn[2]).reshape(drawn[0], drawn[1], 4)


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_number_under_each_thumbnail_is_pythons(look, found):
    page = look()
    heads = every_head(found)
    shares = "(all) => all.map((it) => Number(it.style.getPropertyValue('--share')))"
    for measure in MEASURES:
        page.go(f"v=map&m={measure}")
        assert named(page) == list(heads)
        expected = [f"{numbers[measure]:.2f}" if measure in numbers else "–" for numbers in heads.values()]
        assert page.texts(".thumb .value") == expected
        numbers = np.array([one.get(measure, 0) for one in heads.values()])
        whole = numbers.max() if measure in ("entropy", "distance") else 1
        bars = page.page.locator(".thumb .bar").evaluate_all(shares)
        np.testing.assert_allclose(bars, numbers / whole, atol=1e-9)
        assert page.text(".meaning").endswith(".")


def test_the_table_has_every_measure_of_every_head(look, found):
    rows = look("v=map").table()
    assert rows[0] == ["kind", "layer", "head", *MEASURES, "off"]
    heads = every_head(found)
    assert [(row[0], int(row[1]), int(row[2])) for row in rows[1:]] == list(heads)
    for row, numbers in zip(rows[1:], heads.values(), strict=True):
        assert [cell for cell in row[3:-1] if cell] == [f"{numbers[name]:.6f}" for name in MEASURES if name in numbers]
        assert row[-1] == "0"


@pytest.mark.parametrize(("measure", "order"), [("entropy", "most"), ("entropy", "least"), ("previous", "most")])
def test_heads_are_ranked_and_those_without_the_number_come_last(look, found, measure, order):
    page = look(f"v=map&m={measure}&r={order}")
    heads = every_head(found)
    sign = -1 if order == "most" else 1
    expected = sorted(heads, key=lambda place: sign * heads[place].get(measure, sign * np.inf))
    assert named(page) == expected
    assert page.texts(".who")[0] == "{} {}·{}".format(*expected[0])
    page.page.get_by_role("radio", name="layer by layer").check()
    page.ready()
    assert named(page) == list(heads)


# ── thumbnails ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thumbnail_has_a_pixel_for_each_weight_the_darker_the_heavier(look, found):
    page = look("v=map&w=0")
    for kind in KINDS:
        weights = found.attention[kind][1][2].numpy()
        drawn = pixels(page, kind, 1, 2)
        assert drawn.shape[:2] == weights.shape
        seen = np.tril(np.ones_like(weights)) > 0 if kind == "decoder" else np.ones_like(weights) > 0
        np.testing.assert_array_equal(drawn[..., 3] == 255, seen)  # what is masked is clear
        light = drawn[..., :3].sum(-1)
        order = np.argsort(-weights[seen])
        assert (np.diff(light[seen][order]) >= -6).all()  # a step of the ramp is rounded in each of its three channels
    page.page.get_by_role("radio", name="words").check()
    page.ready()
    assert pixels(page, "cross", 0, 0).shape[:2] == (len(found.target.words) - 1, len(found.source.words))


def test_many_weights_become_few_pixels_the_largest_of_each_block(look, tmp_path):
    bundle = made_up(1, 2, 100, 130)
    (tmp_path / "wide.html").write_bytes(single_file(bundle))
    page = look("v=map", tmp_path / "wide.html")
    drawn = pixels(page, "cross", 0, 1)
    assert drawn.shape[:2] == (34, 44)  # blocks of 3 × 3
    weights = np.pad(bundle.planes["cross/0"][1].astype("float64"), ((0, 2), (0, 2)))
    largest = weights.reshape(34, 3, 44, 3).max((1, 3))
    light = drawn[..., :3].sum(-1).ravel()[np.argsort(-largest.ravel())]
    assert (np.diff(light) >= -6).all()
    assert "largest of its block" in page.text(".map .note")
    masked = pixels(page, "decoder", 0, 0)[..., 3] == 0
    np.testing.assert_array_equal(masked, np.triu(np.ones((34, 34)), 1))


def test_means_of_blocks_are_thumbnails_too(look, found, tmp_path):
    bundle = make_bundle(found, most=3_000)
    (tmp_path / "coarse.html").write_bytes(single_file(bundle))
    page = look("v=map", tmp_path / "coarse.html")
    assert pixels(page, "encoder", 0, 0).shape[:2] == bundle.planes["encoder/0"].shape[1:]
    assert bundle.header["left_out"][0] in page.text(".notes")


def test_heads_that_are_off_are_crossed_out(look, translator, tmp_path):
    inspect(translator, TEXT, off=[Head("cross", 1, 2)]).save(tmp_path / "off.html")
    page = look("v=map", tmp_path / "off.html")
    assert page.page.locator(".thumb.off").count() == 1
    assert page.page.locator(".thumb.off").get_attribute("aria-label") == "cross, layer 1, head 2, switched off"
    assert "switched off" in page.text(".map .note")
    assert [row[:3] for row in page.table() if row[-1] == "1"] == [["cross", "1", "2"]]


# ── from head to head ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_click_opens_the_matrix_and_back_returns(look):
    page = look("v=map")
    thumb(page, "decoder", 3, 1).click()
    page.page.wait_for_selector(".board")
    page.ready()
    assert set(page.page.url.split("#")[1].split("&")) == {"v=matrix", "k=decoder", "l=3", "h=1"}
    assert page.page.evaluate("document.activeElement.textContent") == "Matrix"
    page.page.go_back()
    page.page.wait_for_selector(".thumb")
    page.page.get_by_role("tab", name="Matrix").click()
    page.ready()
    thumbs = look("v=map&k=decoder&l=3&h=1").page.locator("[aria-current]")
    assert thumbs.evaluate_all("(all) => all.map((it) => it.getAttribute('aria-label'))") == [
        "decoder, layer 3, head 1"
    ]


def test_shift_and_l_open_lines(look):
    page = look("v=map&on=1.2")
    thumb(page, "encoder", 4, 3).click(modifiers=["Shift"])
    page.page.wait_for_selector(".loom")
    page.ready()
    assert page.text(".caption.middle") == "encoder, layer 4"
    assert {row[2] for row in page.table()[1:]} == {"3"}
    page.go("v=map")
    thumb(page, "cross", 0, 2).focus()
    page.page.keyboard.press("l")
    page.page.wait_for_selector(".loom")
    page.ready()
    assert {tuple(row[:3]) for row in page.table()[1:]} == {("cross", "0", "2")}


def test_arrow_keys_move_over_the_map_and_enter_opens(look, found):
    page = look("v=map&k=encoder&l=2&h=1")
    page.page.get_by_role("radio", name="layer by layer").focus()
    page.page.keyboard.press("Tab")
    numbers = every_head(found)
    assert page.said.startswith("encoder layer 2, head 1: ")
    for key, place in [("ArrowRight", (2, 2)), ("ArrowDown", (3, 2)), ("ArrowLeft", (3, 1)), ("ArrowUp", (2, 1))]:
        page.page.keyboard.press(key)
        assert page.said.startswith(f"encoder layer {place[0]}, head {place[1]}: ")
        assert f"entropy {numbers['encoder', *place]['entropy']:.4f}, focus" in page.said
    for _ in range(3):
        page.page.keyboard.press("ArrowRight")
    assert page.said.startswith("decoder layer 2, head 0: ")  # the block beside
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector(".board")
    page.ready()
    assert "k=decoder" in page.page.url
    assert "h=0" in page.page.url


def test_pointing_shows_every_number(look, found):
    page = look("v=map&m=focus")
    thumb(page, "cross", 2, 1).hover()
    numbers = every_head(found)["cross", 2, 1]
    shown = dict(zip(page.texts(".tip dt"), page.texts(".tip dd"), strict=True))
    assert shown == {name: f"{value:.4f}" for name, value in numbers.items()}
    assert page.text(".tip .chosen dt") == "focus"


# ── files, addresses, sizes ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_the_picture_has_every_head(look):
    for address in ("v=map", "v=map&r=least&m=ends"):
        page = look(address)
        picture = ElementTree.fromstring(page.saved("Save SVG"))
        images = picture.findall(f".//{SVG}image")
        assert len(images) == 56
        assert all(base64.b64decode(image.get("href").split(",")[1]).startswith(b"\x89PNG") for image in images)
        assert {text.text for text in picture.iter(f"{SVG}text")} >= set(page.texts(".thumb .value")) or "r=" in address
        png = page.saved("Save PNG")
        assert int.from_bytes(png[16:20], "big") == 2 * int(picture.get("width"))


@pytest.mark.slow
@pytest.mark.parametrize("address", ["v=map&m=distance&r=most&k=encoder&l=1&h=2", "v=map&w=0&x=1"])
def test_an_address_gives_the_same_map_again(look, address):
    assert_address_holds(look, address)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1280)])
def test_a_deep_model_is_still_a_map(look, scheme, width, tmp_path, capsys):
    (tmp_path / "deep.html").write_bytes(single_file(made_up(24, 16, 12, 12)))
    page = look("v=map", tmp_path / "deep.html", width=width, scheme=scheme)
    assert page.page.locator(".thumb canvas").count() == 24 * 16 * 3
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    took = page.page.evaluate("""async () => {
        const el = document.querySelector('main'), start = performance.now();
        document.querySelector('input[value=most]').click();
        while (el.dataset.state !== 'ready') await Promise.resolve();
        document.body.offsetHeight;
        return performance.now() - start;
    }""")
    with capsys.disabled():
        print(f" [1152 heads ranked in {took:.0f} ms]", end="")
    values = [float(text) for text in page.texts(".thumb .value")]
    assert values == sorted(values, reverse=True)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    thumb(page, "cross", 23, 15).click()
    page.page.wait_for_selector(".board")
    page.ready()
    assert "l=" not in page.page.url  # the last layer is where such a page begins
    assert "h=15" in page.page.url


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 390), ("light", 1920)])
def test_the_map_fits_the_screen(look, scheme, width):
    page = look(width=width, scheme=scheme)
    for address in ("v=map", "v=map&r=most&m=same"):
        page.go(address)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
