"""View 8 in a real browser, in a file: heads in the order of what they do, with their numbers."""

import csv
import xml.etree.ElementTree as ElementTree

import pytest

from manyheads.inspection import saving
from manyheads.inspection.api import inspect
from manyheads.inspection.importance import importance
from manyheads.inspection.switches import Head

TEXT = "Ein kleiner Hund schläft unter dem Tisch."


@pytest.fixture(scope="module")
def table(found):
    return importance(found)


def minus(text):
    return float(text.replace("−", "-"))


def test_every_head_has_its_number(look, table):
    page = look("v=switches")
    assert page.page.locator(".switch").count() == len(table) == 56
    for head in (Head("cross", 3, 1), Head("encoder", 5, 0), Head("decoder", 0, 2)):
        name = f"{head.kind} layer {head.layer}, head {head.head}"
        cell = page.page.locator(f"[aria-label^='{name}']")
        assert minus(cell.inner_text()) == pytest.approx(table[head], abs=0.0051)
        assert minus(cell.get_attribute("title").rpartition(" ")[2]) == pytest.approx(table[head], rel=1e-3, abs=1e-6)
        cell.hover()
        assert page.said.startswith(f"{name}: on; without it")


def test_the_lists_are_sorted_and_hold_what_matters_most(look, table):
    page = look("v=switches")
    lists = [page.page.locator(".two ol").nth(n).locator("li").all_inner_texts() for n in (0, 1)]
    ordered = sorted(table, key=table.__getitem__)
    names = [[text.split("\n")[0] for text in one] for one in lists]
    assert names[0] == [str(head) for head in ordered[:10]]
    assert names[1] == [str(head) for head in ordered[::-1][:5]]
    assert minus(lists[0][0].split("\n")[-1]) == pytest.approx(table[ordered[0]], rel=1e-3)


def test_arrow_keys_move_within_a_block_and_nothing_is_switched(look):
    page = look("v=switches")
    first = page.page.locator(".switch-block").nth(2).locator(".switch").first
    first.focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowDown")
    assert page.said.startswith("cross layer 1, head 1: on")
    assert page.page.get_by_role("switch").count() == 0
    assert "manyheads serve" in page.text(".switches > .note")


def test_the_table_and_the_picture_hold_every_head(look, table):
    page = look("v=switches")
    rows = page.table()
    assert rows[0] == ["kind", "layer", "head", "off", "change"]
    got = {Head(kind, int(layer), int(head)): float(change) for kind, layer, head, _, change in rows[1:]}
    assert got == pytest.approx(table, abs=1e-5)
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}rect")) == 57
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


def test_where_ranking_would_take_long_the_page_says_so(look, found, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "MOST_PIECES", 5)
    found.save(tmp_path / "unranked.html")
    page = look("v=switches", at=tmp_path / "unranked.html")
    assert "not ranked" in page.text(".switches > .note")
    assert page.page.locator(".two").count() == 0
    assert {row[4] for row in csv.reader([",".join(row) for row in page.table()[1:]])} == {""}


def test_heads_that_were_off_are_shown_so(look, found, tmp_path):
    off = [Head("cross", 1, 0), Head("cross", 1, 3)]
    inspect(found.translator, TEXT, off=off).save(tmp_path / "off.html")
    page = look("v=switches", at=tmp_path / "off.html")
    assert page.page.locator(".switch.off").count() == 2
    assert "cross 1.0, cross 1.3" in page.text("header")
