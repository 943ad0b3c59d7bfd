"""View 14 in a real browser: the report on every head, as the benchmark of the bundled model has made it."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from browser import assert_address_holds

from manyheads.inspection.headreport import HeadFigures, HeadReport
from manyheads.inspection.losing import Lost

SVG = "{http://www.w3.org/2000/svg}"
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "heads.json"
MINUS = str.maketrans("−", "-")


@pytest.fixture(scope="module")
def report():
    made = json.loads(RESULTS.read_text())["report"]
    heads = tuple(HeadFigures(**{**one, "lost": Lost(**one["lost"])}) for one in made.pop("heads"))
    return HeadReport(**made, heads=heads)


@pytest.fixture(scope="module")
def path(found, report, tmp_path_factory):
    return replace(found, report=report).save(tmp_path_factory.mktemp("page") / "heads.html")


def test_the_guide_tells_what_the_benchmark_found(report):
    guide = " ".join((RESULTS.parents[2] / "docs" / "guides" / "inspect.md").read_text(encoding="utf-8").split())
    best, second, *_ = report.ranked("bleu")
    assert (str(best), best.role, best.read) == ("cross 0.0", "aligns", True)
    assert best.lost.bleu > 3 * second.lost.bleu
    assert f"puts {best.looks['aligned']:.2f} of its weight" in guide
    assert f"{best.lost.bleu:.2f} BLEU are lost" in guide
    assert f"all {report.pairs:,} pairs" in guide
    sure = [one.lost for one in report.heads if one.lost.bleu_p <= 0.05]
    gaining = sum(one.bleu < 0 for one in sure)
    lasting = sum(is_sure(one.lost, "log_probability") for one in report.heads)
    assert f"{lasting} of {len(report.heads)} lose log-probability" in guide
    assert f"only {len(sure) - gaining} lose BLEU" in guide
    assert gaining == 1
    halves = json.loads(RESULTS.read_text())["halves"]
    told = [
        f"{half[end][n]['bleu_lost']:.2f}".replace("-", "−")
        for half in halves
        for end, n in (("first", 0), ("last", -1))
    ]
    assert "costs the other half {} BLEU and the last {}; with the halves exchanged, {} and {}.".format(*told) in guide
    roles = {
        role: {str(one) for one in report.heads if one.role == role} for role in ("previous", "next", "aligns", "same")
    }
    assert roles["previous"] == {"encoder 4.0"}
    assert roles["next"] == {"encoder 1.1", "encoder 2.1"}
    assert [len(roles[role]) for role in ("aligns", "same")] == [8, 7]


def number(text):
    return float(text.translate(MINUS))


def test_the_page_begins_with_every_head_and_its_role(look, report):
    page = look()
    assert page.text("[role=tab][aria-selected=true]") == "Heads"
    cells = page.page.locator(".head-cell")
    assert [number(text) for text in page.texts(".head-cell .value")] == [
        round(one.lost.bleu, 2) for one in report.heads
    ]
    labels = [cells.nth(n).get_attribute("aria-label") for n in range(cells.count())]
    told = [f"{one}, {one.role}{', as it reads' * (one.role == 'aligns' and one.read)}" for one in report.heads]
    assert labels == told
    facts = page.text(".head-report > .facts")
    assert f"{report.pairs:,} of {report.of:,}" in facts
    assert f"{report.bleu:.2f}" in facts
    assert f"at least {report.share}" in page.texts(".head-report > .note")[-1]


def test_roles_are_counted_and_one_can_stand_out(look, report):
    page = look()
    chips = page.page.locator(".role-legend button")
    assert {chips.nth(n).get_attribute("aria-label") for n in range(chips.count())} == {
        f"{role}: {sum(one.role == role for one in report.heads)} heads"
        for role in ("previous", "same", "next", "begin and end", "aligns", "spread", "no single role")
    }
    page.page.get_by_role("button", name="aligns:").click()
    page.ready()
    assert page.page.locator(".head-cell:not(.dimmed)").count() == sum(one.role == "aligns" for one in report.heads)
    page.page.get_by_role("button", name="aligns:").click()
    page.ready()
    assert page.page.locator(".dimmed").count() == 0


@pytest.mark.parametrize("figure", ["log_probability", "chrf", "aligned", "entropy"])
def test_any_number_colours_the_boards(look, report, figure):
    page = look(f"y={figure}")
    lost = figure in ("log_probability", "chrf")
    expected = [getattr(one.lost, figure) if lost else one.looks.get(figure) for one in report.heads]
    texts = page.texts(".head-cell .value")
    for text, value in zip(texts, expected, strict=True):
        assert text == "–" if value is None else number(text) == pytest.approx(value, abs=0.0051)
    tints = page.page.evaluate(
        "[...document.querySelectorAll('.head-cell')].map((cell) => cell.style.getPropertyValue('--tint'))"
    )
    assert len(set(tints)) > 5
    most = max(range(len(expected)), key=lambda n: abs(expected[n] or 0))
    light = [sum(map(int, re.findall(r"\d+", tint))) if tint else 3 * 255 for tint in tints]
    assert light[most] == min(light)
    if lost:
        sure = [cell.count("sure") for cell in classes(page)]
        assert sure == [int(is_sure(one.lost, figure)) for one in report.heads]


def classes(page):
    return page.page.evaluate("[...document.querySelectorAll('.head-cell')].map((cell) => cell.className)")


def is_sure(lost, figure):
    if figure == "log_probability":
        return abs(lost.log_probability) >= 2 * lost.log_probability_error
    return getattr(lost, f"{figure}_p") <= 0.05


def test_the_table_sorts_by_any_column(look, report):
    page = look()
    names = lambda: page.texts(".heads-table tbody th")  # noqa: E731
    assert names() == [str(one) for one in report.ranked()]
    page.page.get_by_role("button", name="Sort by BLEU lost").click()
    page.ready()
    assert names() == [str(one) for one in report.ranked("bleu")]
    assert page.page.locator("th[aria-sort=descending]").inner_text().startswith("BLEU lost")
    page.page.get_by_role("button", name="Sort by BLEU lost").click()
    page.ready()
    values = [number(row.split("\t")[2]) for row in page.texts(".heads-table tbody tr")]
    assert values == sorted(values)
    page.page.get_by_role("button", name="Sort by head").click()
    page.ready()
    assert names() == [str(one) for one in report.heads]
    page.page.get_by_role("button", name="Sort by aligned").click()
    page.ready()
    assert names()[0] == str(max(report.heads, key=lambda one: one.looks.get("aligned", 0)))
    assert all(name.startswith(("encoder", "decoder")) for name in names()[-40:])


def test_keys_and_mouse_tell_every_number_and_open_a_head(look, report):
    page = look()
    page.page.locator(".head-cell").first.focus()
    assert page.said.startswith("encoder 0.0: ")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.page.keyboard.press(key)
    assert page.said.startswith("decoder 1.0: ")  # from one board to the next
    one = next(one for one in report.heads if str(one) == "decoder 1.0")
    assert f"BLEU lost {one.lost.bleu:.4f} (p = {one.lost.bleu_p:.4f})".replace("-", "−") in page.said
    assert f"entropy {one.looks['entropy']:.4f}" in page.said
    page.page.locator(".head-cell").nth(2).hover()
    assert page.text(".head-report > .tip b") == "encoder 0.2"
    page.page.locator(".head-cell").nth(5).click()
    page.ready()
    assert {"v=matrix", "k=encoder", "l=1", "h=1"} <= set(page.page.url.split("#")[1].split("&"))
    page.page.go_back()
    page.ready()
    assert page.page.locator(".role-boards").is_visible()


def test_what_is_looked_at_is_in_the_address(look):
    assert_address_holds(look, "y=evenness&z=chrf&up=1&j=same")


def test_the_table_and_the_pictures_hold_all_of_it(look, report):
    page = look()
    header, *rows = page.table()
    assert header[:6] == ["kind", "layer", "head", "role", "read", "bleu_lost"]
    assert [row[:4] for row in rows] == [[one.kind, str(one.layer), str(one.head), one.role] for one in report.heads]
    column = header.index("log_probability_error")
    assert [float(row[column]) for row in rows] == pytest.approx(
        [one.lost.log_probability_error for one in report.heads], abs=1e-6
    )
    picture = ElementTree.fromstring(page.saved("Save SVG"))
    titles = [element.text for element in picture.iter(f"{SVG}title")]
    assert len(titles) == 1 + len(report.heads)
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


def test_of_few_pairs_nothing_is_bold(look, found, report, tmp_path):
    heads = tuple(
        replace(one, lost=replace(one.lost, bleu_p=None, chrf_p=None, log_probability_error=None))
        for one in report.heads
    )
    page = look(at=replace(found, report=replace(report, pairs=1, heads=heads)).save(tmp_path / "few.html"))
    assert page.page.locator(".sure").count() == 0
    assert "few pairs" in page.text(".head-report")
    page.page.locator(".head-cell").first.focus()
    assert "p =" not in page.said
    assert page.go("v=tables&f=report").texts(".plain-table tbody td:last-child") == ["–"] * len(heads)


def test_it_can_be_read_as_a_table(look, report):
    page = look("v=tables&f=report&z=bleu")
    first = report.ranked("bleu")[0]
    row = page.texts(".plain-table tbody tr")[0].split("\t")
    assert row[0] == str(first)
    assert number(row[2]) == pytest.approx(first.lost.bleu, abs=5e-5)
    assert page.page.locator(".plain-table tbody tr").count() == len(report.heads)


def test_without_a_report_it_says_how_to_make_one(look, found, tmp_path):
    page = look("v=heads", at=found.save(tmp_path / "none.html"))
    assert re.search(r"manyheads inspect \S+ --data", page.text(".head-report code"))
    assert len(page.table()) == 1
    page.go("v=tables&f=report")
    assert "no head report" in page.text(".plain-table caption")


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_the_screen(look, width, scheme):
    page = look(width=width, scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.page.evaluate(
        "[...document.querySelectorAll('.head-cell')].every((cell) => cell.scrollWidth <= cell.clientWidth + 1)"
    )
    assert boxes
