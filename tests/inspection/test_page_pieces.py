"""View 15 in a real browser: from what was typed to ids, with names for what cannot be seen."""

import xml.etree.ElementTree as ElementTree

import pytest

from decoding.untrained import TOKENIZERS, build
from manyheads.inspection.api import inspect
from manyheads.inspection.spelling import read_spelling

ODD = "Der Hund\u00a0bellt \u202eelif\u202c, 🦉\u200b:\n\t日本 </script><b>."
ODD_TARGET = "The \u202edog\u202c <img src=x onerror=alert(1)> \u2028."
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def odd(translator):
    return inspect(translator, ODD, ODD_TARGET)


@pytest.fixture(scope="module")
def odd_path(odd, tmp_path_factory):
    return odd.save(tmp_path_factory.mktemp("odd") / "odd.html")


def test_pieces_have_ids_bytes_and_places(look, found):
    page = look("v=pieces")
    for n, side in enumerate((found.source, found.target)):
        tiles = page.page.locator(".tiles").nth(n).locator(".tile")
        assert tiles.count() == len(side.pieces)
        assert tiles.locator(".id").all_inner_texts() == [str(piece.id) for piece in side.pieces]
        spelt = "".join(tiles.locator(".bytes").all_inner_texts()).replace("–", "")
        assert bytes.fromhex(spelt).decode() == side.text
        assert page.page.locator(".tiles").nth(n).locator(".tile-word").count() == len(side.words)
    assert "read unchanged" in page.text(".spelling")
    assert "written by the model" in page.page.locator(".spelling section").last.inner_text()


def test_pointing_at_a_piece_shows_its_stretch_of_the_text(look, found):
    page = look("v=pieces")
    piece = found.source.pieces[2]
    page.page.locator(".tile").nth(2).hover()
    assert page.text(".typed mark") == found.source.text[piece.start : piece.end] == "Hund"
    assert page.said.startswith(
        f"source piece 3 of 9: ‘Hund’, id {piece.id}; bytes 20 48 75 6e 64; characters 12 to 16"
    )
    page.page.locator(".tile").nth(2).click()
    page.ready()
    assert page.page.url.endswith("s=2")
    page.page.keyboard.press("ArrowRight")
    assert "source piece 4 of 9" in page.said
    page.page.keyboard.press("ArrowDown")
    assert "target piece 4 of" in page.said


def test_what_cannot_be_seen_is_named_and_hostile_text_is_inert(look, odd, odd_path):
    page = look("v=pieces", odd_path)
    told = read_spelling(odd)
    rows = page.page.locator(".plain-table tbody tr").all_inner_texts()
    expected = [mark for side in ("source", "target") for mark in told[side]["marks"]]
    assert [row.split("\t")[:4] for row in rows] == [
        [mark["code"], mark["name"], mark["kind"], str(mark["at"])] for mark in expected
    ]
    assert {"NO-BREAK SPACE", "RIGHT-TO-LEFT OVERRIDE", "ZERO WIDTH SPACE", "TAB", "LINE SEPARATOR"} <= {
        mark["name"] for mark in expected
    }
    assert "line breaks became blanks" in page.text(".spelling")
    assert "‹U+000A›" in page.text(".typed")
    assert "‹U+00A0›" in page.page.locator(".tile .chip").all_inner_texts()
    assert page.page.locator(".spelling img, .spelling b b").count() == 0
    assert page.dialogs == []
    text = page.page.locator(".spelling").inner_text()
    assert not any(letter in text for letter in "\u202e\u202c\u200b\u2028\u00a0")


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_every_tokenizer_has_its_pieces(look, tmp_path, kind):
    translator = build(kind)
    inspect(translator, "ab cab é🐶", "ab").save(tmp_path / "kind.html")
    page = look("v=pieces", tmp_path / "kind.html")
    rows = page.table()
    source = [row for row in rows[1:] if row[0] == "source"]
    assert bytes.fromhex("".join(row[4] for row in source)).decode() == "ab cab é🐶"
    assert [int(row[3]) for row in source] == [*TOKENIZERS[kind].encode(["ab cab é🐶"])[0], 2]


def test_the_table_and_the_picture_hold_every_piece(look, odd, odd_path):
    page = look("v=pieces", odd_path)
    rows = page.table()
    assert len(rows) == 1 + len(odd.source.pieces) + len(odd.target.pieces)
    assert "U+202E RIGHT-TO-LEFT OVERRIDE" in {row[9] for row in rows}
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    assert len(picture.findall(f".//{SVG}g/{SVG}g")) == len(rows) - 1
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_the_screen(look, odd_path, width, scheme):
    page = look("v=pieces&s=4", odd_path, width=width, scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
