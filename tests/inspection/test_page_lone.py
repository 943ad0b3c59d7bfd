"""The page of an encoder alone and of a language model, in a real browser: every view that it offers draws, and it offers no other."""

import numpy as np
import pytest
from browser import assert_drawn, tabs_in_a_frame, weights_in
from lone import PROMPT, READ, make_embedder, make_writer

from manyheads import inspect

COMMON = ["Lines", "Matrix", "Model map", "Attribution", "Query and key", "Flow", "Text to pieces", "Text form"]
TABS = {
    "encoder": COMMON,
    "decoder": [*COMMON[:3], "Decoding steps", "Layer lens", "Head switchboard", *COMMON[3:]],
}
VIEWS = {
    "encoder": ["lines", "matrix", "map", "attribution", "inside", "flow", "pieces", "tables"],
    "decoder": ["lines", "matrix", "map", "steps", "lens", "switches", "attribution", "inside", "flow", "pieces", "tables"],
}  # fmt: skip
FORMS = {
    "encoder": ["attention", "heads", "attribution", "pieces"],
    "decoder": ["attention", "candidates", "layers", "heads", "attribution", "pieces"],
}
HOSTILE = "</script><img src=x onerror=alert(1)> \u202eelif\u202c a"


@pytest.fixture(scope="module")
def subjects(tmp_path_factory):
    embedder, writer = (make(tmp_path_factory.mktemp("lone"))[0] for make in (make_embedder, make_writer))
    return {"encoder": embedder, "decoder": writer}


@pytest.fixture(scope="module")
def inspected(subjects):
    return {"encoder": inspect(subjects["encoder"], READ), "decoder": inspect(subjects["decoder"], PROMPT, tokens=6)}


@pytest.fixture(scope="module")
def pages(inspected, tmp_path_factory):
    place = tmp_path_factory.mktemp("pages")
    return {kind: found.save(place / f"{kind}.html") for kind, found in inspected.items()}


@pytest.fixture(params=["encoder", "decoder"])
def kind(request):
    return request.param


@pytest.fixture
def show(look, pages, kind):
    return lambda address="", **how: look(address, at=pages[kind], **how)


def test_it_begins_with_lines_and_offers_what_makes_sense(show, kind, inspected):
    page = show()
    assert page.texts("[role=tab]") == TABS[kind]
    assert page.text("[role=tab][aria-selected=true]") == "Lines"
    assert page.text(".texts").split() == inspected[kind].texts[0].split()
    assert page.page.locator(".threads path").count() > 5
    assert page.page.locator("fieldset[aria-label=Attention]").count() == 0


def test_every_view_draws_and_can_be_saved(show, kind):
    page = show()
    for view in VIEWS[kind]:
        assert_drawn(page, view)


def test_every_form_of_text_is_a_table(show, kind):
    page = show("v=tables")
    assert page.page.locator("fieldset[aria-label=Table] label").count() == len(FORMS[kind])
    for form in FORMS[kind]:
        page.go(f"v=tables&f={form}")
        assert page.page.locator(".plain-table tbody tr").count() > 2


def test_an_address_of_what_is_not_there_leads_to_what_is(show, kind):
    page = show()
    for address in ("v=align", "v=compare", "k=cross&l=7&all=1&u=source&t=99"):
        page.go(address)
        assert page.text("[role=tab][aria-selected=true]") == "Lines"
    assert page.go("v=tables&f=hypotheses").page.locator(".plain-table").count() == 1


def test_numbers_are_those_of_python(show, kind, inspected):
    page = show("v=matrix&l=1&h=2&w=0")
    expected = inspected[kind].attention[kind][1][2].numpy()
    np.testing.assert_allclose(weights_in(page.table()), expected, atol=1e-3)
    inside = page.go("v=inside&l=1&h=2&w=0")
    assert "agrees with the model’s own weights" in inside.text(".result")


@pytest.mark.slow
def test_all_by_keyboard(show, kind):
    page = show("v=lines")
    for n, view in enumerate(VIEWS[kind][:9]):
        page.page.locator("[role=tab][aria-selected=true]").focus()
        page.page.keyboard.press(str(n + 1))
        page.page.wait_for_selector(f"[role=tab][aria-selected=true][data-view={view}]")
        page.ready()
        for key in ("]", "}", "w", "b", "ArrowRight"):
            page.page.keyboard.press(key)
            page.ready()


@pytest.mark.slow
def test_the_walk_goes_from_pieces_to_the_end(show, kind, inspected):
    page = show("v=flow")
    count = int(page.text(".walk .controls .aside").split()[-1])
    names = page.texts(".substeps button")
    assert names[:2] == ["pieces", "vectors"]
    assert ("+ segment" in names) == (kind == "encoder")
    page.page.locator(".walk h3").click()
    for n in range(1, count):
        page.page.get_by_title("Next step").click()
        page.ready()
        assert page.said.startswith(f"{n + 1} of {count}: ")
    last = "the word" if kind == "decoder" else "add and norm"
    assert f": {last}, for" in page.said


def test_steps_begin_where_the_model_goes_on(look, pages, inspected):
    found = inspected["decoder"]
    page = look("v=steps", at=pages["decoder"])
    assert f"step {found.given} of {len(found.choices)}" in page.said
    assert page.page.locator(".steps .given").count() == found.given - 1
    assert page.texts(".candidates .tag").count("written") == 1
    assert "⟨end⟩" not in page.texts(".reading .label")
    rows = page.table()[1:]
    best = {int(row[0]): float(row[4]) for row in rows if row[2] == "1"}
    expected = found.trace.logits.softmax(-1).amax(-1)
    np.testing.assert_allclose([best[n + 1] for n in range(len(expected))], expected, atol=1e-5)


def test_it_fits_a_telephone(show, kind):
    page = show(width=360, scheme="dark")
    for view in VIEWS[kind]:
        page.go(f"v={view}")
        assert not page.page.evaluate("document.documentElement.scrollWidth > innerWidth"), view


def test_hostile_text_is_text(subjects, look, kind, tmp_path):
    given = (HOSTILE,) if kind == "encoder" else ("", HOSTILE)
    path = inspect(subjects[kind], *given).save(tmp_path / "hostile.html")
    page = look(at=path)
    for view in VIEWS[kind]:
        page.go(f"v={view}")
        assert page.page.locator("img").count() == 0
    assert page.dialogs == []


def test_in_a_notebook_it_is_a_frame(browser, inspected, kind, tmp_path):
    assert tabs_in_a_frame(browser, inspected[kind], tmp_path) == TABS[kind]
