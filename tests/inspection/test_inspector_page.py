"""The inspector's page in a real browser: it draws, its numbers are the model's, and no text in it can do anything."""

import base64
import copy
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
from browser import KINDS, Look, embedded, weights_in

from decoding.untrained import MODEL, build
from manyheads.inspection.api import inspect
from manyheads.inspection.bundle import Bundle, make_bundle
from manyheads.inspection.singlefile import script, single_file, style

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
HOSTILE = "</script><img src=x onerror=alert(1)> \u202eelif\u202c \u2028 \"quoted\" 'single' </title></svg> =1+1 <b>"


def merged(found, kind, layer, head, hide=False):
    """Words out of pieces, as it is defined: sum over keys, mean over queries."""
    weights = found.attention[kind][layer]
    weights = (weights.mean(0) if head is None else weights[head]).double().numpy()
    queries = found.source.pieces if kind == "encoder" else found.target.pieces[1:]
    keys = found.target.pieces[:-1] if kind == "decoder" else found.source.pieces
    rows = [[n for n, _ in group] for _, group in groupby(enumerate(queries), lambda pair: pair[1].word)]
    columns = [[n for n, _ in group] for _, group in groupby(enumerate(keys), lambda pair: pair[1].word)]
    out = np.array([[weights[np.ix_(row, column)].sum(1).mean() for column in columns] for row in rows])
    if hide:
        shown = [np.array([side.words[sides[group[0]].word].special for group in groups]) for side, sides, groups in (
            (found.source if kind == "encoder" else found.target, queries, rows),
            (found.target if kind == "decoder" else found.source, keys, columns),
        )]  # fmt: skip
        out = out[~shown[0]][:, ~shown[1]]
        out = out / out.sum(1, keepdims=True)
    return out


# ── it opens ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_opens_with_one_request_and_shows_both_texts(look, found):
    page = look()
    assert page.requests == [page.page.url]
    assert page.texts("header bdi") == [TEXT, found.translation]
    assert f"{found.log_probability:.2f}".replace("-", "−") in page.text("header")
    perplexity = np.exp(-found.log_probability / len(found.choices))
    assert f"{perplexity:.2f}" in page.text("header")


def test_its_policy_lets_nothing_else_run(look):
    page = look()
    page.page.evaluate("""() => { const script = document.createElement('script'); script.textContent = 'window.ran = 1';
        document.body.append(script); document.body.setAttribute('style', 'color: red'); }""")
    assert page.page.evaluate("window.ran") is None
    assert len(page.complaints) == 2
    assert all("Content Security Policy" in text for text in page.complaints)
    page.complaints.clear()


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 390), ("light", 1920)])
def test_every_view_fits_the_screen(look, scheme, width):
    page = look(width=width, scheme=scheme)
    for address in ("w=0", "v=matrix", "v=matrix&k=encoder&l=5", "v=matrix&k=decoder&w=0", "v=inside&h=1"):
        page.go(address)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width


# ── view 1 ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_words_that_are_pointed_at_light_up_with_their_shares(look, found):
    page = look()
    words = page.page.locator(".line.translation .word")
    expected = merged(found, "cross", found.reading.layer, found.reading.head)
    assert words.count() == len(expected)
    words.nth(2).hover()
    best = int(expected[2].argmax())
    assert page.said.startswith(f"‘dog’ attends to ‘Hund’ {expected[2, best]:.4f}")
    assert page.texts(".line.source .share")[best] == f"{expected[2, best] * 100:.0f} %"
    assert [float(text) for text in page.texts(".bars .number")] == pytest.approx(
        sorted(expected[2])[::-1][:6], abs=4e-4
    )
    page.page.locator(".line.source .word").nth(best).hover()
    assert page.said.startswith("‘Hund’ is attended to by ‘dog’")
    assert float(page.texts(".bars .number")[0]) == pytest.approx(expected[:, best].max(), abs=4e-4)


def test_the_probability_of_a_word_is_that_of_its_pieces(look, found):
    page = look()
    counts = Counter(piece.word for piece in found.target.pieces)
    word = next(word for word, count in counts.items() if count > 1)
    page.page.locator(".line.translation .word").nth(word - 1).hover()  # the first of all is the begin
    pieces = [n for n, piece in enumerate(found.target.pieces) if piece.word == word]
    expected = np.exp(sum(found.choices[n - 1].log_probability for n in pieces))
    assert f"probability {expected:.4f}" in page.text(".lead")


def test_a_click_keeps_a_word_and_escape_lets_go(look):
    page = look()
    words = page.page.locator(".line.translation .word")
    words.nth(2).click()
    words.nth(5).hover()
    assert page.said.startswith("‘dog’")
    assert page.page.url.endswith("#t=3")
    page.page.keyboard.press("Escape")
    page.ready()
    assert page.page.locator("[aria-pressed=true]").count() == 0


def test_arrow_keys_go_from_word_to_word_and_across_the_strongest_link(look):
    page = look()
    page.page.locator(".line.translation .word").nth(1).focus()
    assert page.said.startswith("‘little’ attends to ‘kleiner’")
    page.page.keyboard.press("ArrowRight")
    assert page.said.startswith("‘dog’ attends to ‘Hund’")
    page.page.keyboard.press("ArrowUp")
    assert page.said.startswith("‘Hund’ is attended to by ‘dog’")
    page.page.keyboard.press("Enter")
    page.ready()
    assert page.page.url.endswith("#s=2")
    page.page.keyboard.press("ArrowLeft")
    page.ready()
    assert page.page.url.endswith("#s=1")
    assert page.said.startswith("‘kleiner’ is attended to by ‘little’")


def test_a_language_that_is_written_from_the_right_is_shown_so(look, translator, tmp_path):
    path = inspect(translator, TEXT, "הכלב ישן").save(tmp_path / "hebrew.html")
    page = look("", path)
    words = page.page.locator(".line.translation .word")
    assert words.first.bounding_box()["x"] > words.last.bounding_box()["x"]
    words.nth(1).focus()
    page.page.keyboard.press("ArrowLeft")
    page.page.keyboard.press("ArrowLeft")  # between the two is a blank, a word of its own for this model
    assert page.said.startswith("‘ישן’")
    assert "given" in page.text("header")


def test_links_of_a_head_are_of_a_layer_that_the_decoder_has(look):
    page = look("v=matrix&k=encoder&l=5&a=head")
    page.page.get_by_role("tab", name="Translate and align").click()
    page.ready()
    assert page.text(".align .aside") == "layer 3, mean of heads"
    assert page.page.locator("[aria-label=Layer] input:checked").get_attribute("value") == "3"


def test_links_come_from_where_the_reader_wants(look, found):
    page = look("a=all&t=1")
    mean = np.mean([merged(found, "cross", layer, None) for layer in range(4)], 0)
    assert float(page.texts(".bars .number")[0]) == pytest.approx(mean[0].max(), abs=4e-4)
    page.page.get_by_role("radio", name="this head").check()
    page.page.keyboard.press("}")
    page.ready()
    assert page.text(".align .aside") == "layer 2, head 0"
    expected = merged(found, "cross", 2, 0)
    assert float(page.texts(".bars .number")[0]) == pytest.approx(expected[0].max(), abs=4e-4)


def test_a_shifted_reading_takes_the_row_that_reads_a_word(look, found, tmp_path):
    bundle = make_bundle(found)
    shifted = Bundle({**bundle.header, "reading": {"layer": 1, "head": 3, "shift": 1}}, bundle.planes)
    (tmp_path / "shifted.html").write_bytes(single_file(shifted))
    page = look("w=0&t=3", tmp_path / "shifted.html")
    expected = found.attention["cross"][1][3, 3].numpy()  # the row that reads piece 3
    assert float(page.texts(".bars .number")[0]) == pytest.approx(expected.max(), abs=4e-4)


def test_a_hundred_words_are_running_text(look, tmp_path):
    crafted = craft(128, 128)
    (tmp_path / "long.html").write_bytes(single_file(crafted))
    page = look("t=9", tmp_path / "long.html")
    assert page.page.locator(".stage").get_attribute("data-layout") == "text"
    assert page.page.locator(".line.source .word").count() == 128
    assert page.said.startswith("‘t9’ attends to")


# ── view 3 ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_the_matrix_of_words_is_that_of_the_definition(look, found, kind):
    page = look(f"v=matrix&k={kind}")
    for head, hide in [(None, False), (2, False), (1, True)]:
        if kind == "decoder" and hide:
            continue  # its first row sees nothing but the begin: the next test
        page.go(f"v=matrix&k={kind}&l=1&h={'-' if head is None else head}&x={int(hide)}")
        got = weights_in(page.table())
        np.testing.assert_allclose(got, merged(found, kind, 1, head, hide), atol=6e-4)
        np.testing.assert_allclose(got.sum(1), 1, atol=1e-3)
        assert ("rescaled to add up to 1" in page.text(".notes")) == hide


def test_a_row_with_nothing_left_is_empty_and_the_page_says_so(look):
    page = look("v=matrix&k=decoder&l=1&x=1")
    got = weights_in(page.table()).sum(1)
    np.testing.assert_allclose(got, [0] + [1] * (len(got) - 1), atol=1e-3)
    assert "empty: 1." in page.text(".matrix .note")


def test_the_matrix_of_pieces_is_the_models_own(look, found):
    page = look("v=matrix")
    for kind in KINDS:
        rows = page.go(f"v=matrix&k={kind}&l=2&h=3&w=0").table()
        np.testing.assert_allclose(weights_in(rows), found.attention[kind][2][3].numpy(), atol=5e-4)
        masked = np.array([[cell == "" for cell in row[1:]] for row in rows[1:]])
        expected = np.triu(np.ones_like(masked), 1) if kind == "decoder" else np.zeros_like(masked)
        np.testing.assert_array_equal(masked, expected)


def test_there_is_ink_on_the_canvas_where_weights_are_large_and_paper_elsewhere(look, found):
    layer, head = next(
        (layer, head) for layer, heads in enumerate(found.attention["encoder"]) for head, plane in enumerate(heads)
        if (plane > 0.6).any() and (plane < 0.004).any()
    )  # fmt: skip
    page = look(f"v=matrix&k=encoder&l={layer}&w=0&h={head}")
    weights = weights_in(page.table())
    dark, light = page.page.evaluate("""() => {
        const canvas = document.querySelector('.board canvas');
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height), sums = [];
        for (let n = 0; n < data.length; n += 4) if (data[n + 3]) sums.push(data[n] + data[n + 1] + data[n + 2]);
        return [sums.filter((sum) => sum < 400).length, sums.filter((sum) => sum > 740).length];
    }""")
    cell = 50**2  # pixels, or more
    assert dark > cell * (weights > 0.6).sum() > 0
    assert light > cell * (weights < 0.005).sum() > 0


def test_a_larger_weight_has_a_darker_colour(look, found):
    picture = ElementTree.fromstring(look("v=matrix&w=0&h=1").saved("Save SVG"))
    cells = [rect for rect in picture.iter("{http://www.w3.org/2000/svg}rect") if len(rect)]
    light = np.array([sum(bytes.fromhex(rect.get("fill")[1:])) for rect in cells])
    weights = np.array([float(rect[0].text.rsplit(": ", 1)[1]) for rect in cells])
    np.testing.assert_allclose(weights, found.attention["cross"][2][1].numpy().ravel(), atol=5e-4)
    assert (np.diff(light[np.argsort(weights, kind="stable")]) <= 0).all()


def test_hover_and_arrow_keys_say_the_weight(look, found):
    page = look("v=matrix&w=0&h=1")
    weights = found.attention["cross"][2][1].numpy()
    board = page.page.locator(".board")
    board.hover(position={"x": 200, "y": 200})
    assert page.page.locator(".tip b").inner_text() in page.said
    assert "column total" in page.said
    board.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"):
        page.page.keyboard.press(key)
        page.ready()
    pair, value = page.said.split(" (")[0].split(": ")
    assert pair == "‘dog’ → ‘kleiner’"
    assert float(value) == pytest.approx(weights[2, 1], abs=4e-4)
    assert {"s=1", "t=3"} <= set(page.page.url.split("#")[1].split("&"))
    assert page.text("aside .lead").startswith("‘dog’ attends to\nwrites ‘dog’, having read ‘little’")
    shown = [float(text) for text in page.texts("aside .number")]
    assert shown == pytest.approx(sorted(weights[2])[::-1], abs=5e-4)


def test_zooming_keeps_what_is_under_the_mouse(look, tmp_path):
    (tmp_path / "large.html").write_bytes(single_file(craft(128, 128)))
    page = look("v=matrix&w=0", tmp_path / "large.html")
    before = page.page.locator(".board canvas").screenshot()
    board = page.page.locator(".board")
    board.hover(position={"x": 300, "y": 300})
    said = page.said
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -100)
    page.page.keyboard.up("Control")
    page.page.mouse.move(*[at + 300 for at in (board.bounding_box()["x"], board.bounding_box()["y"])])
    assert page.said == said
    assert page.page.locator(".board canvas").screenshot() != before
    page.page.get_by_role("button", name="Fit").click()
    page.page.mouse.move(0, 0)
    assert page.page.locator(".board canvas").screenshot() == before


@pytest.mark.parametrize("size", [128, 512])
def test_large_grids_are_drawn(look, size, tmp_path, capsys):
    (tmp_path / "large.html").write_bytes(single_file(craft(size, size)))
    page = look("v=matrix&w=0", tmp_path / "large.html")
    took = page.page.evaluate("""async () => {
        const slider = document.querySelector('[aria-label="Colour scale"]'), el = document.querySelector('main');
        const start = performance.now();
        slider.value = 1;
        slider.dispatchEvent(new Event('input'));
        while (el.dataset.state !== 'ready') await Promise.resolve();
        return performance.now() - start;
    }""")
    with capsys.disabled():
        print(f" [{size} × {size} drawn anew in {took:.0f} ms]", end="")
    assert page.text(".scale-name") == "square root"


def test_means_of_blocks_are_shown_as_such(look, found, tmp_path):
    bundle = make_bundle(found, most=3_000)
    block = bundle.header["planes"]["encoder/0"]["block"]
    assert block > 1
    (tmp_path / "coarse.html").write_bytes(single_file(bundle))
    page = look("v=matrix&k=encoder&l=0&h=0", tmp_path / "coarse.html")
    assert f"mean of {block} × {block} weights" in page.text(".matrix .note")
    assert bundle.header["left_out"][0] in page.text(".notes")
    got = weights_in(page.table())
    np.testing.assert_allclose(got, bundle.planes["encoder/0"][0] / 255, atol=1e-5)
    page.page.get_by_role("tab", name="Query and key").click()
    page.ready()
    assert "Left out of this page" in page.text(".warning")


# ── view 10 ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "layer", "head", "row"), [("encoder", 5, 0, 3), ("decoder", 1, 2, 4), ("cross", 2, 3, 6)]
)
def test_every_step_from_scores_to_weights_is_the_models(look, found, kind, layer, head, row):
    piece = row if kind == "encoder" else row + 1
    page = look(f"v=inside&k={kind}&l={layer}&h={head}&{'s' if kind == 'encoder' else 't'}={piece}")
    inside = getattr(found.trace, kind)[layer].inside()
    table = page.table()
    got = {name: np.array([float(line[n]) for line in table[1:]]) for n, name in enumerate(table[0]) if n}
    q, k, v = (one[head].double().numpy() for one in (inside.q, inside.k, inside.v))
    np.testing.assert_allclose(got["q·k"], k @ q[row], atol=1e-3)
    np.testing.assert_allclose(got["score"], inside.scores[head, row].numpy(), atol=1e-3)
    np.testing.assert_array_equal(got["masked"] == 0, inside.seen[row].numpy())
    np.testing.assert_allclose(got["weight"], inside.weights[head, row].numpy(), atol=1e-5)
    np.testing.assert_allclose(got["|v|"], np.linalg.norm(v, axis=1), atol=1e-3)
    np.testing.assert_allclose(got["q×k 7"], q[row, 7] * k[:, 7], atol=1e-4)
    assert "agrees with the model" in page.text(".result")
    best = int(got["weight"].argmax())
    assert f"weight {got['weight'][best]:.4f}" in page.said
    assert f"{got['exp'][best]:.4f} / {got['exp'].sum():.4f} = {got['weight'][best]:.4f}" in page.text(".formula")


def test_sums_that_are_not_the_models_are_called_out(look, found, tmp_path):
    bundle = make_bundle(found)
    wrong = Bundle(bundle.header, bundle.planes | {"cross/2/k": bundle.planes["cross/2/k"] * np.float32(1.2)})
    (tmp_path / "wrong.html").write_bytes(single_file(wrong))
    page = look("v=inside&h=1", tmp_path / "wrong.html")
    assert "do not trust them" in page.text(".warning")


SHAPES = {
    "window": replace(MODEL, window=(1, 0)),
    "grouped": replace(MODEL, width=32, heads=4, kv_heads=2),
    "additive": replace(MODEL, score="additive"),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_every_step_of_other_attentions(look, tmp_path, shape):
    """A window hides keys, several heads share theirs, a score need not be a product."""
    found = inspect(build(shape=shape), "ab ca ed ab é", "ab ab ca")
    found.save(tmp_path / "other.html")
    for kind, attended in (
        ("encoder", found.trace.encoder[0]),
        ("decoder", found.trace.decoder[0]),
        ("cross", found.trace.cross[0]),
    ):
        inside = attended.inside()
        table = look(
            f"v=inside&k={kind}&l=0&h=1&{'s' if kind == 'encoder' else 't'}=3", tmp_path / "other.html"
        ).table()
        row = 3 if kind == "encoder" else 2
        assert [line[3] for line in table[1:]] == ["0" if seen else "1" for seen in inside.seen[row]]
        np.testing.assert_allclose([float(line[2]) for line in table[1:]], inside.scores[1, row], atol=1e-4)
        np.testing.assert_allclose([float(line[5]) for line in table[1:]], inside.weights[1, row], atol=1e-5)


def test_what_a_window_hides_is_hatched(look, tmp_path):
    inspect(build(shape=SHAPES["window"]), "ab ca ed ab é", "ab ab ca").save(tmp_path / "window.html")
    page = look("v=matrix&k=encoder&l=0&h=0&w=0", tmp_path / "window.html")
    assert "This model attends within a window." in page.text(".matrix")
    cells = [[cell == "" for cell in line[1:]] for line in page.table()[1:]]
    assert cells == [[not 0 <= row - key <= 1 for key in range(len(cells))] for row in range(len(cells))]


def test_arrow_keys_move_to_other_keys_and_queries(look):
    page = look("v=inside&h=1&t=3&s=2")
    assert page.said.startswith("‘dog’ → ‘Hund’")
    page.page.locator(".wide").focus()
    page.page.keyboard.press("ArrowDown")
    page.ready()
    assert page.said.startswith("‘dog’ → ‘schläft’")
    page.page.keyboard.press("ArrowRight")
    page.ready()
    assert page.said.startswith("‘is’ → ‘schläft’")
    page.page.locator(".strip").nth(1).hover()
    named = re.fullmatch(r"q\[(\d+)\] × k\[\1\] = (\S+) × (\S+) = (\S+)", page.text(".tip"))
    left, right, product = (float(number.replace("−", "-")) for number in named.groups()[1:])
    assert product == pytest.approx(left * right, rel=2e-3)


# ── the frame ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize(
    "address",
    ["s=2", "a=head&h=1&t=4&w=0", "v=matrix&k=encoder&l=4&h=2&s=1&o=3&p=3", "v=matrix&k=decoder&h=0&x=1&p=0", "v=inside&h=3&t=2&s=1"],
)  # fmt: skip
def test_an_address_gives_the_same_picture_again(look, address):
    first = look(address)
    assert set(first.page.url.split("#")[1].split("&")) == set(address.split("&"))
    first.page.keyboard.press("w")
    first.page.keyboard.press("w")
    first.ready()
    written = first.page.url.split("#")[1]
    assert set(written.split("&")) == set(address.split("&"))
    again = look(written)
    assert again.page.screenshot() == first.page.screenshot()


def test_what_an_address_asks_for_and_is_not_there_is_ignored(look):
    page = look("v=nothing&k=__proto__&l=99&h=-1&s=1e9&t=%3Cb%3E&p=7&a=&&=")
    assert page.page.get_by_role("tab", selected=True).inner_text() == "Translate and align"


def test_back_undoes_a_step(look):
    page = look()
    page.page.get_by_role("tab", name="Matrix").click()
    page.ready()
    page.page.get_by_role("radio", name="encoder").check()
    page.ready()
    page.page.go_back()
    page.page.wait_for_function("() => location.hash === '#v=matrix'")
    page.ready()
    assert page.page.locator("input[value=cross]").is_checked()
    page.page.go_back()
    page.page.wait_for_selector(".stage")
    page.page.go_forward()
    page.page.wait_for_selector(".board")


def test_everything_is_reached_by_keyboard(look):
    page = look()
    keys = page.page.keyboard
    page.page.get_by_role("tab").first.focus()
    for title in ("Lines", "Matrix"):
        keys.press("ArrowRight")
        page.ready()
        assert page.page.evaluate("document.activeElement.textContent") == title
    reached = []
    for _ in range(16):
        keys.press("Tab")
        reached.append(
            page.page.evaluate(
                "document.activeElement.getAttribute('aria-label') || document.activeElement.value || document.activeElement.textContent"
            )
        )
    wanted = [
        "true",
        "cross",
        "2",
        "Colour scale",
        "Heat map. Use the arrow keys to move from cell to cell.",
        "Copy CSV",
        "Save SVG",
        "Save PNG",
        "Keys",
    ]
    assert [name for name in reached if name in wanted] == wanted
    page.page.locator(".board").focus()
    keys.press("]")
    page.ready()
    assert "l=3" in page.page.url
    keys.press("?")
    assert page.page.locator(".keys").is_visible()


def test_a_chooser_keeps_the_focus_while_it_is_used(look):
    page = look("v=matrix")
    page.page.locator("[aria-label=Layer] input:checked").focus()
    page.page.keyboard.press("ArrowRight")
    page.ready()
    page.page.keyboard.press("ArrowLeft")
    page.ready()
    assert page.page.evaluate("document.activeElement.value") == "2"


@pytest.mark.parametrize("address", ["", "v=matrix&k=decoder&w=0", "v=inside&h=0"])
def test_pictures_that_are_saved_are_well_formed_and_not_empty(look, address):
    page = look(address)
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(picture.findall(".//*")) > 40
    assert "Hund" in "".join(picture.itertext()) or "dog" in "".join(picture.itertext())
    png = page.saved("Save PNG")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20], "big") == 2 * int(picture.get("width"))
    assert len(png) > 5_000


def test_the_table_of_links_holds_every_pair(look, found):
    rows = look().table()
    assert rows[0] == ["target", "source", "weight"]
    expected = merged(found, "cross", 2, None)
    np.testing.assert_allclose([float(row[2]) for row in rows[1:]], expected.ravel(), atol=3e-4)


# ── hostile texts, many hosts ───────────────────────────────────────────────────────────────────────────────────────


def test_hostile_texts_do_nothing(look, translator, tmp_path):
    path = inspect(translator, HOSTILE, HOSTILE).save(tmp_path / "hostile.html")
    page = look("", path)
    assert "</script><img src=x onerror=alert(1)>" in page.text("header")
    assert "‹U+202E›" in page.text("header")
    assert "‹U+2028›" in page.text("header")
    for address in ("t=2", "w=0&s=3", "v=matrix&w=0", "v=inside&h=0&k=decoder"):
        page.go(address)
        assert page.page.evaluate("document.querySelectorAll('img, main script, main title, main style').length") == 0
        assert page.page.evaluate("document.querySelectorAll('script').length") == 2
        assert "\u202e" not in page.page.evaluate("document.querySelector('main').textContent")
        ElementTree.fromstring(page.saved("Save SVG"))
        assert not any(cell.startswith("=") for row in page.table() for cell in row)
    assert page.dialogs == []


def test_two_inspectors_do_not_disturb_each_other_and_ask_for_what_they_need(browser, found, tmp_path):
    """A host without planes: each is asked for once, when it is first looked at, and given as bytes."""
    bundle = make_bundle(found)
    planes = {name: base64.b64encode(plane.tobytes()).decode() for name, plane in bundle.planes.items()}
    page_path = tmp_path / "two.html"
    page_path.write_text(f"""<!doctype html><meta charset="utf-8"><style>{style()}</style><div id="a"></div><div id="b"></div>
        <script type="application/json" id="data">{embedded({"header": bundle.header, "planes": planes})}</script>
        <script type="module">{script()}
        const data = JSON.parse(document.getElementById("data").textContent);
        window.requested = [];
        {{
        const listeners = {{}};
        const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
        const asking = {{
          get: (key) => (key === "header" ? data.header : undefined),
          on: (name, act) => (listeners[name] = act), off: () => {{}},
          send: (message) => {{ requested.push(message.name); setTimeout(() => listeners["msg:custom"](message, [new DataView(bytes(data.planes[message.name]).buffer)])); }},
        }};
        const [a, b] = ["a", "b"].map((id) => document.getElementById(id));
        window.renew = () => {{ data.header = {{ ...data.header, translation: "something else" }}; listeners["change:header"](); }};
        window.remove = inspector.render({{ model: fromFile(data), el: a }});
        inspector.render({{ model: asking, el: b }});
        }}
        </script>""", encoding="utf-8")  # fmt: skip
    page = Look(browser, page_path)
    page.page.wait_for_selector("#b[data-state=ready]")
    assert page.page.evaluate("requested") == ["cross/2"]
    page.page.locator("#b [role=tab]", has_text="Matrix").click()
    page.page.wait_for_selector("#b .board")
    page.page.locator("#b").get_by_role("radio", name="pieces").check()
    page.page.wait_for_selector("#b[data-state=ready]")
    assert page.page.evaluate("requested") == ["cross/2"]
    assert page.page.locator("#a .stage").count() == 1
    assert page.page.locator("#a input[value=true]").is_checked()
    assert page.page.evaluate("location.hash") == ""
    page.page.locator("#b .board").hover(position={"x": 150, "y": 150})
    assert page.text("#b [aria-live]") != ""
    assert page.text("#a [aria-live]") == ""
    page.page.evaluate("renew()")
    page.page.locator("#b header bdi", has_text="something else").wait_for()
    page.page.evaluate("remove()")
    assert page.page.locator("#a *").count() == 0
    page.page.locator("#b .board").wait_for()
    assert page.complaints == []
    page.page.close()


# ── a bundle of any size ────────────────────────────────────────────────────────────────────────────────────────────


def craft(rows, columns):
    """A made-up inspection: one layer of each kind, two heads, weights that are drawn."""
    drawn = np.random.default_rng(0)

    def side(letter, count, specials):
        texts = [f"{letter}{n}" for n in range(count)]
        pieces = [{"text": text, "id": 9, "start": 0, "end": 1, "word": n} for n, text in enumerate(texts)]
        words = [{"text": text, "start": 0, "end": 1, "special": n in specials} for n, text in enumerate(texts)]
        return {"text": " ".join(texts), "pieces": pieces, "words": words}

    def plane(high, wide):
        values = drawn.gamma(0.2, size=(2, high, wide)) + 1e-4
        return (values / values.sum(-1, keepdims=True)).astype("float16")

    planes = {"encoder/0": plane(columns, columns), "decoder/0": plane(rows, rows), "cross/0": plane(rows, columns)}
    stored = {name: {"type": "f16", "shape": value.shape, "block": 1} for name, value in planes.items()}
    header = {
        "schema": "inspection/1",
        "model": {"name": "made up", "heads": 2, "kv_heads": 2, "width": 8, "scale": 0.5, "layers": dict.fromkeys(KINDS, 1),
                  "bounds": {"encoder": (None, None), "decoder": (None, 0), "cross": (None, None)}},
        "source": side("s", columns, {columns - 1}),
        "target": side("t", rows + 1, {0, rows}),
        "translation": "made up", "score": -1.0, "log_probability": -1.0, "forced": False, "part": 1, "parts": 1, "reading": None,
        "steps": [{"log_probability": -0.1, "rank": 0, "entropy": 0.1, "candidates": []}] * rows,
        "planes": stored, "left_out": [],
    }  # fmt: skip
    return Bundle(copy.deepcopy(header), planes)
