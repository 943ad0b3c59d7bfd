"""The page of a model that writes all at once, in a real browser: iterations, graphs, and every other view that makes sense."""

import re
from math import exp

import numpy as np
import pytest
from browser import Look, assert_drawn, tabs_in_a_frame, weights_in
from parallels import HOSTILE, TEXT, TITLES, VIEWS, WAYS, make_ending, make_parallel

from manyheads import inspect
from manyheads.inspection.bundle import Bundle
from manyheads.inspection.saving import page_of
from manyheads.inspection.singlefile import single_file

OPTIONS = {"mask": {"iterations": 4, "lengths": 3}, "end": {"iterations": 4}, "graph": {"length": 5}}
FORMS = ["iterations", "alignment", "attention", "candidates", "layers", "heads", "attribution", "pieces"]


@pytest.fixture(scope="module")
def translators():
    return {writes: make_parallel(writes) for writes in WAYS}


@pytest.fixture(scope="module")
def inspected(translators):
    return {writes: inspect(translators[writes], TEXT, **OPTIONS[writes]) for writes in WAYS}


@pytest.fixture(scope="module")
def pages(inspected, tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    return {writes: found.save(place / f"{writes}.html") for writes, found in inspected.items()}


@pytest.fixture(params=WAYS)
def writes(request):
    return request.param


@pytest.fixture
def show(look, pages):
    return lambda writes, address="", **how: look(address, at=pages[writes], **how)


def test_it_begins_with_iterations_and_offers_what_makes_sense(show, writes):
    page = show(writes)
    first = "Graph" if writes == "graph" else "Iterations"
    assert page.texts("[role=tab]") == [first, *TITLES]
    assert page.text("[role=tab][aria-selected=true]") == first
    assert "all at once" in page.text("header .facts")


def test_every_view_draws_and_can_be_saved(show, writes):
    page = show(writes)
    for view in VIEWS:
        assert_drawn(page, view)


def test_every_form_of_text_is_a_table(show, writes):
    page = show(writes, "v=tables")
    assert page.page.locator("fieldset[aria-label=Table] label").count() == len(FORMS)
    for form in FORMS:
        page.go(f"v=tables&f={form}")
        assert page.page.locator(".plain-table tbody tr").count() > 2, form


# ── iterations ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("writes", ["mask", "end"])
def test_the_grid_is_what_happened(show, inspected, writes):
    page, taken = show(writes), inspected[writes].taken
    rows = page.page.locator(".filled .row:has([role=gridcell])")
    assert rows.count() == len(taken.iterations)
    for n, one in enumerate(taken.iterations):
        cells = rows.nth(n).locator("[role=gridcell]")
        assert cells.count() == taken.length
        classes = [cells.nth(place).get_attribute("class") for place in range(taken.length)]
        assert ["new" in of for of in classes] == one.written
        assert ["kept" in of for of in classes] == [not written for written in one.written]
        assert ["other" in of for of in classes] == one.changed
        assert ["gone" in of for of in classes] == [one.cut is not None and p > one.cut for p in range(taken.length)]
        shares = cells.locator(".rank").all_inner_texts()
        for share, log_p in zip(shares, one.log_probability, strict=True):
            assert share == "<1 %" or abs(int(share.split()[0]) - 100 * exp(log_p)) <= 0.51
    table = page.table()
    assert len(table) - 1 == sum(len(t.iterations) * t.length for t in inspected[writes].tries)
    last = [row for row in table[1:] if row[1] == "1" and row[2] == str(len(taken.iterations))]
    np.testing.assert_allclose([float(row[5]) for row in last], np.exp(taken.iterations[-1].log_probability), atol=1e-6)
    assert [row[6] == "1" for row in last] == taken.iterations[-1].written


def test_an_iteration_can_be_chosen_and_has_its_words(show, inspected):
    taken = inspected["mask"].taken
    page = show("mask", "i=1")
    assert "iteration 2 of 4" in page.text(".iterations .controls:not([hidden]) >> nth=1")
    assert page.page.locator(".filling.before .hole").count() == sum(taken.iterations[1].written)
    assert page.page.locator(".filling:not(.before) .other").count() == sum(taken.iterations[1].changed)
    page.page.get_by_title("Next iteration").click()
    page.ready()
    assert page.said.startswith("iteration 3 of 4: ")
    assert page.page.url.endswith("#i=2")
    place = taken.iterations[2].written.index(True)
    page.page.locator(".filled .row.now [role=gridcell]").nth(place).click()
    page.ready()
    before, now = (taken.iterations[n] for n in (1, 2))
    assert f"iteration 3, place {place + 1}:" in page.said
    assert f"{exp(now.log_probability[place]):.4f}" in page.said
    assert f"{exp(before.log_probability[place]):.4f}" in page.said, "before and now"
    numbers = page.texts(".by-pass .number")
    assert [float(n) for n in numbers] == pytest.approx(
        [exp(one.log_probability[place]) for one in taken.iterations], abs=1e-4
    )
    assert [sign == "▢" for sign in page.texts(".by-pass .sign-of")] == [one.written[place] for one in taken.iterations]


def test_another_length_can_be_looked_at(show, inspected):
    page, tries = show("mask"), inspected["mask"].tries
    labels = page.texts("fieldset[aria-label='Lengths tried'] label")
    assert len(labels) == 3
    for label, one in zip(labels, sorted(tries, key=lambda one: one.length), strict=True):
        assert f"{one.length} places" in label
        assert label.startswith("●") == one.taken
        assert f"{one.score:.3f}".replace("-", "−") in label
    other = max((one for one in tries if not one.taken), key=lambda one: one.length)
    page.page.locator("fieldset[aria-label='Lengths tried'] label").filter(has_text=f"{other.length} places").click()
    page.ready()
    assert page.page.locator(".filled .row.now [role=gridcell]").count() == other.length
    page.page.locator(".filled .row.now [role=gridcell]").last.click()
    page.ready()
    assert f"place {other.length}" in page.said
    address = page.page.url.split("#")[1]
    again = show("mask", address)
    assert f"place {other.length}" in again.said
    for view in VIEWS:  # a place that is not in what was taken means nothing elsewhere
        again.go(f"{address}&v={view}")


@pytest.mark.parametrize("writes", ["mask", "end"])
def test_arrows_lead_through_places_and_iterations(show, inspected, writes):
    page, taken = show(writes, "i=0&t=0"), inspected[writes].taken
    page.page.locator("[role=gridcell][tabindex='0']").focus()
    for key, said in (("ArrowRight", "iteration 1, place 2"), ("ArrowDown", "iteration 2, place 2"), ("ArrowDown", "iteration 3, place 2"),
                      ("ArrowLeft", "iteration 3, place 1"), ("ArrowLeft", "iteration 3, place 1"), ("ArrowUp", "iteration 2, place 1")):  # fmt: skip
        page.page.keyboard.press(key)
        page.ready()
        assert page.said.startswith(f"{said}:")
    assert page.page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("iteration 2, place 1:")
    page.page.keyboard.press(" ")  # without motion: one on
    page.ready()
    assert page.said.startswith("iteration 3, place 1:")
    assert len(taken.iterations) == 4


def test_it_plays(browser, pages):
    page = Look(browser, pages["mask"], "i=0")
    page.page.emulate_media(reduced_motion="no-preference")
    page.page.reload()
    page.ready()
    page.page.get_by_role("button", name="Play").click()
    page.page.wait_for_function("() => document.querySelector('[aria-live]').textContent.startsWith('iteration 3')")
    page.page.get_by_role("button", name="Pause").click()
    page.page.close()


def test_what_is_written_right_to_left_stands_so(inspected, look, tmp_path):
    bundle = page_of(inspected["mask"])
    header = {**bundle.header, "tries": [{**one, "text": "כלב ישן"} for one in bundle.header["tries"]]}
    path = tmp_path / "rtl.html"
    path.write_bytes(single_file(Bundle(header, bundle.planes)))
    page = look("i=0&t=1", at=path)
    left = [page.page.locator(".filled .row.now [role=gridcell]").nth(n).bounding_box()["x"] for n in (0, 1, 2)]
    assert left[0] > left[1] > left[2]
    page.page.locator("[role=gridcell][tabindex='0']").focus()
    page.page.keyboard.press("ArrowLeft")
    page.ready()
    assert page.said.startswith("iteration 1, place 3:")


def test_a_graph_that_is_written_right_to_left_stands_so(inspected, look, tmp_path):
    bundle = page_of(inspected["graph"])
    header = {**bundle.header, "target": {**bundle.header["target"], "text": "כלב ישן"}}
    path = tmp_path / "rtl.html"
    path.write_bytes(single_file(Bundle(header, bundle.planes)))
    page = look("t=3", at=path)
    left = [page.page.locator(".vertex").nth(n).bounding_box()["x"] for n in range(len(header["target"]["pieces"]))]
    assert left == sorted(left, reverse=True)
    page.page.locator(".vertex[tabindex='0']").focus()
    page.page.keyboard.press("ArrowLeft")
    page.ready()
    assert page.said.startswith("vertex 4 of")


def test_what_is_behind_the_first_end_is_faint(look, tmp_path):
    found = inspect(make_ending(), TEXT, iterations=3)
    page = look(at=found.save(tmp_path / "ending.html"))
    rows = page.page.locator(".filled .row:has([role=gridcell])")
    counts = [rows.nth(n).locator(".gone").count() for n in range(3)]
    assert counts == [0 if one.cut is None else found.taken.length - 1 - one.cut for one in found.taken.iterations]
    assert max(counts) > 0
    assert f"at place {found.taken.cut + 1} the first end" in page.text(".iterations .facts")
    for view in VIEWS:
        page.go(f"v={view}")
    assert page.go("v=pieces").page.locator(".special-tile").count() > found.taken.length - found.taken.cut


def test_escape_lets_go(show):
    page = show("mask", "t=2")
    assert "place 3" in page.said
    page.page.locator("[role=gridcell][tabindex='0']").focus()
    page.page.keyboard.press("Escape")
    page.ready()
    assert "places were masked and written" in page.said


# ── a graph ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_graph_shows_its_vertices_and_its_path(show, inspected):
    page, graph = show("graph"), inspected["graph"].graph
    assert page.page.locator(".vertex").count() == len(graph.vertices)
    large = page.page.locator(".vertex.large")
    assert [int(large.nth(n).get_attribute("data-vertex")) for n in range(large.count())] == graph.path
    assert page.page.locator(".vertex.silent").count() == 2
    assert page.page.locator(".arcs .taken").count() == len(graph.path) + 1
    strong = sum(exp(link.log_probability) >= 0.02 or (n, link.to) in graph.steps for n, v in enumerate(graph.vertices) for link in v.links)  # fmt: skip
    assert page.page.locator(".arcs path").count() == strong
    rows = page.table()
    assert len(rows) - 1 == sum(max(1, len(vertex.links)) for vertex in graph.vertices)
    for row in rows[1:]:
        if row[4]:
            links = {link.to: link.log_probability for link in graph.vertices[int(row[0])].links}
            assert float(row[6]) == pytest.approx(exp(links[int(row[4])]), abs=1e-6)
            assert float(row[7]) == pytest.approx(graph.vertices[int(row[0])].covered, abs=1e-6)


def test_a_vertex_tells_what_it_could_have_said_and_where_it_leads(show, inspected):
    found = inspected["graph"]
    n = next(n for n in range(1, len(found.graph.vertices) - 1) if n not in found.graph.path)
    page = show("graph")
    page.page.locator(f".vertex[data-vertex='{n}']").focus()
    page.page.keyboard.press("Enter")
    page.ready()
    assert page.said.startswith(f"vertex {n} of {len(found.graph.vertices)}: ")
    assert "not on the path" in page.said
    sections = page.page.locator(".two.three section")
    said = [float(text) for text in sections.nth(0).locator(".number").all_inner_texts()]
    assert said == pytest.approx([exp(one.log_probability) for one in found.choices[n].candidates[:6]], abs=1e-4)
    links = [float(text) for text in sections.nth(1).locator(".number").all_inner_texts()]
    assert links == pytest.approx([exp(one.log_probability) for one in found.graph.vertices[n].links], abs=1e-4)
    assert f"{round(100 * found.graph.vertices[n].covered)} %" in sections.nth(1).inner_text()
    assert page.page.locator(".by-length .chosen").inner_text().split()[1] == str(len(found.graph.path))


def test_keys_lead_along_vertices_and_along_the_path(show, inspected):
    graph = inspected["graph"].graph
    page = show("graph")
    page.page.locator(".vertex[tabindex='0']").focus()
    way = [*graph.path, len(graph.vertices) - 1]
    for n in way[1:]:
        page.page.keyboard.press("ArrowDown")
        page.ready()
        assert page.said.startswith(f"vertex {n} of")
    page.page.keyboard.press("ArrowLeft")
    page.ready()
    assert page.said.startswith(f"vertex {len(graph.vertices) - 2} of")


def test_only_the_path_is_aligned(show, inspected):
    page = show("graph", "v=align&w=0")
    assert page.page.locator(".line.translation .word").count() == len(inspected["graph"].graph.path)


# ── the other views ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("attention", ["encoder", "decoder", "cross"])
def test_numbers_are_those_of_python(show, inspected, writes, attention):
    found = inspected[writes]
    page = show(writes, f"v=matrix&k={attention}&l=1&h=2&w=0")
    expected = found.attention[attention][1][2].numpy()
    table = page.table()
    np.testing.assert_allclose(weights_in(table), expected, atol=1e-3)
    rows, columns = found.looking(attention)[1], found.looked_at(attention)[1]
    assert table[0][1:] == [piece.text for piece in columns] or "=" in "".join(table[0])
    assert len(table) - 1 == len(rows)
    inside = page.go(f"v=inside&k={attention}&l=1&h=2&w=0&t={len(rows) - 1}&s={len(rows) - 1}")
    assert "agrees with the model’s own weights" in inside.text(".result")


def test_a_row_says_its_place_and_whether_it_was_masked(show, inspected):
    taken, last = inspected["mask"].taken, inspected["mask"].taken.iterations[-1]
    page = show("mask", "v=matrix&k=decoder&w=0")
    for place in (last.written.index(True), last.written.index(False)):
        page.go(f"v=matrix&k=decoder&w=0&t={place}&o=0")
        expected = "having read a mask" if last.written[place] else "was kept"
        assert expected in page.text(".beside aside")
        assert f"place {place + 1}" in page.text(".beside aside")
    assert taken.taken
    assert "Heads and vectors are those of iteration 4, the last" in page.text(".notes")


def test_words_are_as_sure_as_they_were_when_written(show, inspected):
    found = inspected["mask"]
    page = show("mask", "v=align&w=0&t=0")
    assert f"written with probability {exp(found.taken.iterations[-1].log_probability[0]):.4f}" in page.text(
        ".readout .lead"
    )


def test_the_last_row_of_the_lens_is_what_the_pass_says(show, inspected, writes):
    found = inspected[writes]
    rows = show(writes, "v=lens").table()[1:]
    last = [row for row in rows if row[0] == "1"]
    assert [row[2] for row in last] == [piece.text for piece in found.target.pieces] or "=" in "".join(
        r[2] for r in last
    )
    best = [float(row[6]) for row in last]
    np.testing.assert_allclose(best, [exp(one.candidates[0].log_probability) for one in found.choices], atol=1e-5)


def test_the_lens_calls_rows_what_they_are(show, writes):
    name = "vertex 2" if writes == "graph" else "place 3"
    assert f"After layer 0, {name}" in show(writes, "v=lens&l=0&t=2&w=0").text(".lens")


def test_it_says_where_there_is_more(show, writes):
    assert "manyheads serve" in show(writes, "v=switches").text(".switches > .note")
    assert "manyheads serve" in show(writes, "v=attribution").text(".attribution")


@pytest.mark.slow
def test_the_walk_goes_from_places_to_the_word(show, writes):
    page = show(writes, "v=flow&g=word&k=decoder")
    count = int(page.text(".walk .controls .aside").split()[-1])
    assert f"{count} of {count}: Decoder: the word" in page.said
    assert re.search("same time|other vertices|links between", page.text(".telling"))
    page.go("v=flow&g=pieces&k=decoder")
    assert "known pieces as they are, unknown ones as masks" in page.text(".telling")


def test_it_fits_a_telephone(show, writes):
    page = show(writes, width=360, scheme="dark")
    for view in VIEWS:
        page.go(f"v={view}")
        assert not page.page.evaluate("document.documentElement.scrollWidth > innerWidth"), view
        tabs = page.page.locator("[role=tablist]").bounding_box()
        chosen = page.page.locator("[role=tab][aria-selected=true]").bounding_box()
        assert tabs["height"] < 2 * chosen["height"]  # one line, moved along to where the chosen one is seen
        assert tabs["x"] <= chosen["x"]
        assert chosen["x"] + chosen["width"] <= tabs["x"] + tabs["width"]


def test_hostile_text_is_text(translators, look, writes, tmp_path):
    path = inspect(translators[writes], HOSTILE, **OPTIONS[writes]).save(tmp_path / "hostile.html")
    page = look(at=path)
    for view in VIEWS:
        page.go(f"v={view}")
        assert page.page.locator("img").count() == 0
    assert page.dialogs == []


def test_in_a_notebook_it_is_a_frame(browser, inspected, writes, tmp_path):
    assert tabs_in_a_frame(browser, inspected[writes], tmp_path)[1:] == TITLES


def test_others_have_no_such_view(look):
    page = look("v=iterations")
    assert page.text("[role=tab][aria-selected=true]") == "Translate and align"
    assert "Iterations" not in page.texts("[role=tab]")
