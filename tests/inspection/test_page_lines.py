"""View 2 in a real browser: lines between words are the model's weights, and it is said how many of them are drawn."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from browser import KINDS, assert_address_holds, made_up

from manyheads.inspection.api import inspect
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.singlefile import single_file

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
LAYERS = {"encoder": 5, "decoder": 2, "cross": 2}
"""Those that a page of the bundled model shows first."""
VISIONS = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""What is left of linear red, green and blue, from Machado, Oliveira and Fernandes (2009)."""


def words(side, pieces):
    """The word of each of these pieces, by its text."""
    return np.array([side.words[piece.word].text for piece in pieces])


def weights_of(found, kind, layer, head):
    """{(query, key): weight} of words, as it is defined: sum over the pieces of a key, mean over those of a query.
    The words of the bundled sentence are all different."""
    weights = found.attention[kind][layer]
    weights = (weights.mean(0) if head is None else weights[head]).double().numpy()
    source = words(found.source, found.source.pieces)
    queries = source if kind == "encoder" else words(found.target, found.target.pieces[1:])
    keys = words(found.target, found.target.pieces[:-1]) if kind == "decoder" else source
    read, written = list(dict.fromkeys(keys)), list(dict.fromkeys(queries))
    return {(q, k): weights[np.ix_(queries == q, keys == k)].sum(1).mean() for q in written for k in read}


def unmasked(found, kind):
    """How many weights of words there are: in the decoder, pairs of which some row may see some piece."""
    if kind != "decoder":
        return len(weights_of(found, kind, 0, 0))
    written, read = words(found.target, found.target.pieces[1:]), words(found.target, found.target.pieces[:-1])
    seen = {(q, k) for row, q in enumerate(written) for column, k in enumerate(read) if column <= row}
    return len(seen)


def lines_in(rows):
    assert rows[0] == ["kind", "layer", "head", "query", "key", "weight"]
    return {(row[0], int(row[1]), row[2], row[3], row[4]): float(row[5]) for row in rows[1:]}


def counted(page):
    shown, count, share = re.search(r"(\d+) of (\d+) weights, (?:over )?(\d+) %", page.text(".counted")).groups()
    return int(shown), int(count), int(share)


def count_paths(page):
    return page.page.locator(".threads path").count()


# ── the lines ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lines_of_all_three_attentions_are_the_heaviest_of_all_weights(look, found):
    page = look("v=lines&on=0.2.mean")
    every = {
        (kind, LAYERS[kind], name, *pair): weight
        for kind in KINDS
        for name, head in (("0", 0), ("2", 2), ("mean", None))
        for pair, weight in weights_of(found, kind, LAYERS[kind], head).items()
    }
    drawn = lines_in(page.table())
    assert len(drawn) == 60 == count_paths(page)
    for place, weight in drawn.items():
        assert weight == pytest.approx(every[place], abs=6e-4)
    assert min(drawn.values()) >= sorted(every.values())[-60] - 6e-4
    total = 3 * sum(unmasked(found, kind) for kind in KINDS)
    assert counted(page)[:2] == (60, total)
    assert counted(page)[2] == pytest.approx(100 * sum(drawn.values()) / sum(every.values()), abs=0.6)


@pytest.mark.parametrize("kind", KINDS)
def test_lines_of_one_attention_go_from_queries_to_keys(look, found, kind):
    page = look(f"v=lines&all=0&k={kind}&l=1&h=3&n=500")
    expected = {pair: weight for pair, weight in weights_of(found, kind, 1, 3).items() if weight > 0}
    drawn = lines_in(page.table())
    assert {place[:3] for place in drawn} == {(kind, 1, "3")}
    assert drawn.keys() >= {(kind, 1, "3", *pair) for pair, weight in expected.items() if weight > 1e-6}
    for place, weight in drawn.items():
        assert weight == pytest.approx(expected[place[3:]], abs=6e-4)
    assert page.texts(".pile.left .label") == list(dict.fromkeys(key for _, key in expected))
    assert page.texts(".pile.right .label") == list(dict.fromkeys(query for query, _ in expected))
    assert counted(page)[1:] == (unmasked(found, kind), 100)


def test_a_line_begins_at_its_query_and_ends_wide_at_its_key(look):
    """Of cross-attention: thin at the right, at the height of the word that looks; wide at the left."""
    page = look("v=lines&all=0&n=10&h=1")
    rows = page.table()[1:]
    shapes = page.page.evaluate("[...document.querySelectorAll('.threads path')].map((path) => path.getAttribute('d'))")
    middles = page.page.evaluate("""() => {
        const top = document.querySelector('.threads').getBoundingClientRect().top;
        const middle = (word) => { const box = word.getBoundingClientRect(); return (box.top + box.bottom) / 2 - top; };
        return ['left', 'right'].map((side) => [...document.querySelectorAll(`.pile.${side} .word`)].map((word) => [word.innerText.trim(), middle(word)]));
    }""")
    keys, queries = (dict(side) for side in middles)
    for shape, row in zip(reversed(shapes), rows, strict=True):
        x, top, _, _, _, _, u, upper, v, lower = (float(number) for number in re.findall(r"-?[\d.]+", shape)[:10])
        assert u == v < x
        assert top == pytest.approx(queries[row[3]], abs=1)
        assert (upper + lower) / 2 == pytest.approx(keys[row[4]], abs=0.2)
        assert lower - upper == pytest.approx(1.2 + 7.2 * float(row[5]), abs=0.2)


def test_lines_stay_with_their_words_when_the_window_changes(look):
    page = look("v=lines&h=1")
    edges = "[document.querySelector('.threads path:last-child').getBBox().width, document.querySelector('.loom').clientWidth]"
    before = page.page.evaluate(edges)
    page.page.set_viewport_size({"width": 700, "height": 900})
    page.page.wait_for_function(f"() => {edges}[0] !== {before[0]}")
    width, room = page.page.evaluate(edges)
    assert width < before[0]
    assert width < room < before[1]


def test_the_slider_says_how_many_lines(look):
    page = look("v=lines&on=0.1.2.3")
    before = counted(page)
    slider = page.page.get_by_label("Maximum number of lines")
    slider.focus()
    slider.press("ArrowRight")
    page.ready()
    assert "n=100" in page.page.url
    assert (before[0], counted(page)[0], count_paths(page)) == (60, 100, 100)
    assert counted(page)[2] > before[2]
    slider.press("Home")
    page.ready()
    assert counted(page)[0] == count_paths(page) == 10


def test_pieces_and_hidden_ends(look, found):
    page = look("v=lines&all=0&k=encoder&l=3&h=0&w=0&n=500")
    weights = found.attention["encoder"][3][0].numpy()
    assert sorted(float(row[5]) for row in page.table()[1:]) == pytest.approx(sorted(weights.ravel()), abs=5e-4)
    page.go("v=lines&all=0&k=encoder&l=3&h=0&w=0&n=500&x=1")
    kept = weights[:-1, :-1] / weights[:-1, :-1].sum(1, keepdims=True)
    assert sorted(float(row[5]) for row in page.table()[1:]) == pytest.approx(sorted(kept.ravel()), abs=6e-4)
    assert "rescaled to add up to 1" in page.text(".notes")


# ── heads ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_heads_are_switched_on_and_off_and_the_last_is_shared(look):
    page = look("v=lines")
    toggles = page.page.get_by_role("group", name="Heads")
    toggles.get_by_role("checkbox", name="head 1").check()
    page.ready()
    assert "on=mean.1" in page.page.url
    assert page.page.evaluate("document.activeElement.value") == "1"
    assert {row[2] for row in page.table()[1:]} == {"mean", "1"}
    toggles.get_by_role("checkbox", name="mean of heads").uncheck()
    page.ready()
    assert "h=1" in page.page.url
    assert "on=" not in page.page.url
    toggles.get_by_role("button", name="all").click()
    page.ready()
    assert {row[2] for row in page.table()[1:]} == {"0", "1", "2", "3"}
    page.page.keyboard.press("}")
    page.ready()
    assert {row[2] for row in page.table()[1:]} == {"2"}
    toggles.get_by_role("checkbox", name="head 2").uncheck()
    page.ready()
    assert page.text(".counted").startswith("no head selected")
    assert count_paths(page) == 0


def linear(colour):
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def perceived(rgb):
    """Linear red, green and blue as OKLab, where distances are those that are seen."""
    cones = np.clip(rgb, 0, 1) @ np.array([[0.4122214708, 0.2119034982, 0.0883024619],
        [0.5363325363, 0.6806995451, 0.2817188376], [0.0514459929, 0.1073969566, 0.6299787005]])  # fmt: skip
    return np.cbrt(cones) @ np.array([[0.2104542553, 1.9779984951, 0.0259040371],
        [0.7936177850, -2.4285922050, 0.7827717662], [-0.0040720468, 0.4505937099, -0.8086757660]])  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_heads_can_be_told_apart_by_every_eye(look, scheme, tmp_path):
    (tmp_path / "sixteen.html").write_bytes(single_file(made_up(1, 16, 4, 4)))
    page = look("v=lines&on=" + ".".join(map(str, range(16))), tmp_path / "sixteen.html", scheme=scheme)
    shown = page.page.evaluate(
        "[...document.querySelectorAll('.heads label')].map((it) => it.style.getPropertyValue('--hue'))"
    )
    assert len(set(shown)) == 17
    colours = np.array([linear(colour) for colour in shown[1:]])
    paper = {"light": 1.0, "dark": linear("#1f1e1c") @ [0.2126, 0.7152, 0.0722]}[scheme]
    lights = np.sort([np.full(16, paper), colours @ [0.2126, 0.7152, 0.0722]], 0)
    assert ((lights[1] + 0.05) / (lights[0] + 0.05)).min() >= 2.95
    for vision in VISIONS.values():
        seen = perceived(colours @ np.array(vision).T)
        apart = np.linalg.norm(seen[:, None] - seen, axis=-1) + 9 * np.eye(16)
        assert apart[:8, :8].min() > 0.09
        assert apart.min() > 0.055
    assert page.page.locator(".heads .hollow").count() == 8
    assert page.page.locator(".threads path[stroke]").count() > 0


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_word_that_is_pointed_at_shows_its_lines_alone_with_numbers(look, found):
    page = look("v=lines&h=1")
    cross = weights_of(found, "cross", 2, 1)
    inner = weights_of(found, "decoder", 2, 1)
    page.page.locator(".pile.right .word", has_text="dog").hover()
    assert page.text(".counted").startswith("‘dog’: ")
    said = re.match(r"‘dog’ attends to ‘Hund’ (\d\.\d{4}) \(cross layer 2, head 1\)", page.said)
    assert float(said[1]) == pytest.approx(cross["dog", "Hund"], abs=5e-4)
    beside = dict(zip(page.texts(".pile.left .label"), page.texts(".pile.left .share"), strict=True))
    assert float(beside["Hund"]) == pytest.approx(cross["dog", "Hund"], abs=5e-4)
    beside = dict(zip(page.texts(".pile.right .label"), page.texts(".pile.right .share"), strict=True))
    assert float(beside["A"]) == pytest.approx(inner["dog", "A"], abs=5e-4)
    assert float(beside["under"]) == pytest.approx(inner["under", "dog"], abs=5e-4)
    assert page.texts(".roles .lead") == [
        "‘dog’ attends to\ncross, layer 2", "‘dog’ attends to\ndecoder, layer 2", "‘dog’ is attended to by\ndecoder, layer 2",
    ]  # fmt: skip
    first = page.page.locator(".roles section").first.locator(".number").all_inner_texts()
    ranked = sorted((weight for (query, _), weight in cross.items() if query == "dog"), reverse=True)
    assert [float(text) for text in first] == pytest.approx(ranked[:6], abs=5e-4)
    page.page.locator(".pile.right .word", has_text="dog").click()
    page.ready()
    lines = lines_in(page.table())
    assert len(lines) == counted(page)[0] == count_paths(page)
    assert all("dog" in place[3:] for place in lines)


def test_a_click_keeps_a_word_for_every_view(look):
    page = look("v=lines&h=1")
    page.page.locator(".pile.left .word", has_text="Hund").click()
    page.ready()
    page.page.mouse.move(0, 0)
    assert "s=2" in page.page.url
    assert page.said.startswith("‘Hund’ attends to")
    page.page.keyboard.press("3")
    page.ready()
    page.page.locator(".board").focus()
    page.page.keyboard.press("2")
    page.ready()
    assert page.page.locator(".pile.left [aria-pressed=true]").inner_text().split()[-1] == "Hund"
    assert page.page.evaluate("document.activeElement.textContent") == "Lines"
    page.page.keyboard.press("Escape")
    page.ready()
    assert page.page.locator("[aria-pressed=true]").count() == 0


def test_arrow_keys_go_along_a_column_and_across_the_heaviest_line(look):
    page = look("v=lines&h=1")
    keys = page.page.keyboard
    page.page.locator(".pile.right .word", has_text="little").focus()
    keys.press("ArrowDown")
    assert page.said.startswith("‘dog’")
    keys.press("ArrowLeft")
    assert page.said.startswith("‘Hund’")
    keys.press("ArrowUp")
    assert page.said.startswith("‘kleiner’")
    keys.press("Enter")
    page.ready()
    keys.press("ArrowDown")
    page.ready()
    assert "s=2" in page.page.url


def test_the_last_piece_is_let_go_where_there_are_fewer_words(look):
    page = look("v=lines&w=0&h=1")
    page.page.locator(".pile.right .word").last.focus()
    assert page.said.startswith("‘⟨end⟩’")
    page.page.keyboard.press("w")
    page.ready()
    assert not page.text(".counted").startswith("‘")


def test_the_layer_of_the_encoder_is_its_own(look, found):
    page = look("v=matrix&k=encoder&l=4&h=0")
    page.page.get_by_role("tab", name="Lines").click()
    page.ready()
    assert page.texts(".caption") == ["encoder, layer 4", "cross, layer 3", "decoder, layer 3"]
    page.page.get_by_role("group", name="Encoder layer").get_by_role("radio", name="1").check()
    page.ready()
    assert {(row[0], row[1]) for row in page.table()[1:]} == {("encoder", "1"), ("cross", "3"), ("decoder", "3")}
    page.page.get_by_role("group", name="Attention").get_by_role("radio", name="encoder").check()
    page.ready()
    assert page.text(".caption.middle") == "encoder, layer 1"


# ── files, addresses, sizes ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("address", ["v=lines&n=150&on=mean.0.3&e=2&l=1&t=4", "v=lines&all=0&k=decoder&h=2&w=0&o=3"])
def test_an_address_gives_the_same_lines_again(look, address):
    assert_address_holds(look, address)


def test_an_address_that_asks_for_what_is_not_there(look):
    page = look("v=lines&on=7.3.3.x.0&n=61&e=99&all=2")
    assert {row[2] for row in page.table()[1:]} == {"0", "3"}
    assert counted(page)[0] == 60
    assert page.text(".caption.left") == "encoder, layer 5"


@pytest.mark.parametrize("address", ["v=lines&on=0.1.2.3", "v=lines&all=0&k=decoder&h=2&t=3"])
def test_the_picture_has_every_line_and_says_what_it_shows(look, address):
    page = look(address)
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    assert len(picture.findall("{http://www.w3.org/2000/svg}path")) == counted(page)[0]
    text = "".join(picture.itertext())
    assert page.text(".counted") in text
    assert "‘dog’" in text or "t=3" not in address
    png = page.saved("Save PNG")
    assert int.from_bytes(png[16:20], "big") == 2 * int(picture.get("width"))


def test_a_page_with_means_of_blocks_has_no_lines_and_says_so(look, found, tmp_path):
    (tmp_path / "coarse.html").write_bytes(single_file(make_bundle(found, most=3_000)))
    page = look("v=lines", tmp_path / "coarse.html")
    assert "left out of this page" in page.text(".lines .note")
    assert not page.page.locator(".loom").is_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1920)])
def test_lines_fit_the_screen(look, scheme, width, tmp_path):
    (tmp_path / "large.html").write_bytes(single_file(made_up(24, 16, 30, 12)))
    every = ".".join(map(str, range(16)))
    page = look(f"v=lines&n=500&on={every}", tmp_path / "large.html", width=width, scheme=scheme)
    assert count_paths(page) == 500
    for address in ("v=lines&t=3", "v=lines&all=0&k=decoder&w=0&t=9"):
        page.go(address)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_words_are_only_words(look, translator, tmp_path):
    hostile = "</script><img src=x onerror=alert(1)> \u202eelif\u202c </title></svg> =1+1"
    inspect(translator, hostile, hostile).save(tmp_path / "hostile.html")
    page = look("v=lines&w=0", tmp_path / "hostile.html")
    page.page.locator(".pile.left .word").nth(3).hover()
    assert page.page.evaluate("document.querySelectorAll('img, main script, main title').length") == 0
    assert "\u202e" not in page.page.evaluate("document.querySelector('main').textContent")
    ElementTree.fromstring(page.saved("Save SVG"))
    assert not any(cell.startswith("=") for row in page.table() for cell in row)
    assert page.dialogs == []
