"""View 6 in a real browser: the tree of a search, its scores, and where each hypothesis looked."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from manyheads.decoding.beamlog import path_of
from manyheads.inspection.api import inspect
from manyheads.inspection.hypotheses import looks_of

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
SVG = "{http://www.w3.org/2000/svg}"


def finished(found):
    ends = [n for n, node in enumerate(found.beam) if node.status == "finished"]
    return sorted(ends, key=lambda n: -found.beam[n].score)


def minus(value):
    return f"{value:.4f}".replace("-", "−")


def test_every_continuation_is_there_and_the_best_is_the_translation(look, found):
    page = look("v=beam")
    assert page.page.locator(".node[data-node]").count() == len(found.beam)
    for status in ("kept", "finished", "pruned", "left"):
        expected = sum(node.status == status for node in found.beam)
        assert page.page.locator(f".trunk .node.{status}").count() == expected
    best = finished(found)[0]
    assert page.page.locator("[aria-pressed=true][data-node]").get_attribute("data-node") == str(best)
    assert page.text(".hypothesis .lead bdi") == found.translation
    path = {int(one.get_attribute("data-node")) for one in page.page.locator(".node.on-path").all()}
    assert path == set(path_of(found.beam, best))


def test_scores_stand_with_and_without_the_length_penalty(look, found):
    page = look("v=beam")
    listed = page.texts(".end")
    assert len(listed) == len(finished(found))
    for text, n in zip(listed, finished(found), strict=True):
        node = found.beam[n]
        assert f"score {minus(node.score)}" in text
        assert f"log-probability {minus(node.total)}" in text
    node = found.beam[finished(found)[0]]
    facts = page.text(".hypothesis .facts")
    assert f"length penalty\n{node.total / node.score:.4f}" in facts


def test_a_click_shows_where_that_hypothesis_looked(look, found):
    page = look("v=beam&w=0")
    other = finished(found)[1]
    page.page.locator(f"[data-node='{other}']").click()
    page.ready()
    assert page.page.url.endswith(f"b={other}")
    assert page.said.startswith("‘A small dog is sleeping under the table.’: step")
    looks, path = looks_of(found)[0], path_of(found.beam, other)
    board = page.page.locator(".looked .board")
    board.focus()
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("ArrowDown")
    assert float(re.search(r": (0\.\d{4})", page.said)[1]) == pytest.approx(looks[path[1], 0], abs=6e-5)
    box = board.locator("canvas").bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.page.locator(".looked .tip b").inner_text() == re.search(r": (0\.\d{4})", page.said)[1]


def test_what_was_pruned_can_be_hidden_and_looked_at(look, found):
    page = look("v=beam")
    pruned = next(n for n, node in enumerate(found.beam) if node.status == "pruned" and node.step == 3)
    page.page.locator(f"[data-node='{pruned}']").hover()
    assert f"{found.beam[pruned].score:.4f}".replace("-", "−") in page.text(".beam > .tip")
    page.page.locator(f"[data-node='{pruned}']").click()
    page.ready()
    assert "pruned: others scored better" in page.text(".hypothesis .lead")
    page.page.get_by_role("checkbox", name="Show pruned hypotheses").uncheck()
    page.ready()
    assert page.page.locator(".trunk .pruned.node").count() == 1  # the chosen one stays
    assert page.page.url.endswith("&pr=0")


def test_arrow_keys_walk_through_the_tree(look, found):
    page = look("v=beam")
    best = finished(found)[0]
    page.page.locator("[aria-pressed=true][data-node]").focus()
    page.page.keyboard.press("ArrowLeft")
    page.ready()
    assert page.page.evaluate("document.activeElement.dataset.node") == str(found.beam[best].parent)
    page.page.keyboard.press("ArrowDown")
    page.ready()
    below = int(page.page.evaluate("document.activeElement.dataset.node"))
    assert (found.beam[below].step, found.beam[below].rank) == (found.beam[best].step - 1, 1)
    page.page.keyboard.press("ArrowRight")
    page.ready()
    child = int(page.page.evaluate("document.activeElement.dataset.node"))
    assert found.beam[child].parent == below
    assert "rank" in page.said


def test_the_table_and_the_picture_hold_the_tree(look, found):
    page = look("v=beam")
    rows = page.table()
    assert len(rows) == 1 + len(found.beam)
    for n in (0, 17, len(found.beam) - 1):
        row = dict(zip(rows[0], rows[n + 1], strict=True))
        assert float(row["score"]) == pytest.approx(found.beam[n].score, abs=1e-5)
        assert float(row["log_probability"]) == pytest.approx(found.beam[n].total, abs=1e-5)
        assert row["status"] == found.beam[n].status
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    assert len(picture.findall(f".//{SVG}path")) == len(found.beam)
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


def test_a_given_translation_has_no_search_and_says_so(look, translator, tmp_path):
    inspect(translator, TEXT, "A dog </script><img src=x onerror=alert(1)>.").save(tmp_path / "given.html")
    page = look("v=beam", tmp_path / "given.html")
    assert page.text(".beam .note") == "The translation was given, so there was no search."
    assert page.page.locator(".tree").is_hidden()
    assert b"there was no search" in page.saved("Save SVG")


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_the_screen(look, width, scheme):
    page = look("v=beam&b=3", width=width, scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
