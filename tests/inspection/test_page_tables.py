"""View 16 in a real browser: real tables, with the numbers of the other views."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from browser import made_up

from manyheads.inspection.lens import read_layers
from manyheads.inspection.plane import choose_plane
from manyheads.inspection.singlefile import single_file
from manyheads.inspection.summaries import summaries

FORMS = ("alignment", "attention", "candidates", "hypotheses", "layers", "attribution", "heads", "pieces")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_a_real_table(look, form):
    page = look(f"v=tables&f={form}")
    table = page.page.locator(".panel table")
    assert table.count() == 1
    assert table.locator("caption").inner_text().strip()
    assert table.locator("thead th[scope=col]").count() == len(page.table()[0])
    rows = table.locator("tbody tr")
    assert rows.count() == rows.locator("th[scope=row]").count() == len(page.table()) - 1 > 0
    assert page.said == f"{table.locator('caption').inner_text()}: {rows.count()} rows"
    ElementTree.fromstring(page.saved("Save SVG"))
    assert page.saved("Save PNG")[:4] == b"\x89PNG"


def test_an_attention_is_that_of_the_matrix(look, found):
    page = look("v=tables&f=attention&k=decoder&l=1&h=3")
    plane = choose_plane(found, "decoder", 1, 3)
    rows = page.table()
    assert rows[0][1:] == plane.columns
    assert [row[0] for row in rows[1:]] == plane.rows
    shown = np.array([[0 if cell == "masked" else float(cell) for cell in row[1:]] for row in rows[1:]])
    np.testing.assert_allclose(shown, plane.weights, atol=6e-4)
    assert rows[1][1:].count("masked") == len(plane.columns) - 1
    page.page.get_by_role("region", name="Table").focus()
    page.page.keyboard.press("]")
    page.ready()
    assert "layer 2, head 3" in page.said


def test_an_alignment_names_what_is_looked_at_most(look, found):
    page = look("v=tables")
    plane = choose_plane(found)
    for row, weights in zip(page.table()[1:], plane.weights, strict=True):
        best = np.argsort(-weights)[:3]
        assert row[1::2] == [plane.columns[n] for n in best]
        assert [float(cell) for cell in row[2::2]] == pytest.approx([weights[n] for n in best], abs=6e-4)


def test_the_other_forms_have_the_numbers_of_their_views(look, found):
    page = look("v=tables&f=candidates")
    steps = page.table()[1:]
    expected = [np.exp(choice.log_probability) for choice in found.choices]
    assert [float(row[2]) for row in steps] == pytest.approx(expected, abs=6e-5)
    hypotheses = look("v=tables&f=hypotheses").table()[1:]
    assert hypotheses[0][1] == found.translation
    assert float(hypotheses[0][2]) == pytest.approx(found.score, abs=6e-5)
    layers = look("v=tables&f=layers").table()[1:]
    ranks = [[int(re.search(r"rank (\d+)", cell)[1]) - 1 for cell in row[1:]] for row in layers]
    assert ranks == [[row[n]["rank"] for row in read_layers(found)["layers"]] for n in range(len(layers))]
    heads = look("v=tables&f=heads&k=encoder").table()
    entropy = [value for layer in summaries(found)["encoder"] for value in layer["entropy"]]
    assert [float(row[heads[0].index("entropy")]) for row in heads[1:]] == pytest.approx(entropy, abs=6e-5)


def test_an_attention_that_is_too_large_is_read_row_by_row(look, tmp_path):
    (tmp_path / "large.html").write_bytes(single_file(made_up(1, 2, 60, 60)))
    page = look("v=tables&f=attention&h=0&t=5", tmp_path / "large.html")
    assert "Too large for a table: this is the row of ‘t5’" in page.text("caption")
    rows = page.table()[1:]
    assert len(rows) == 60
    assert [float(row[1]) for row in rows] == sorted((float(row[1]) for row in rows), reverse=True)


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1920, "dark")])
def test_it_fits_the_screen(look, width, scheme):
    for form in ("attention", "layers"):
        page = look(f"v=tables&f={form}", width=width, scheme=scheme)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
