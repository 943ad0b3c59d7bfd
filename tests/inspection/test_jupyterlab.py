"""The inspector where most people will meet it: in cells of a real JupyterLab, asking a real kernel, with no network."""

from urllib.parse import urlsplit

import pytest
from browser import Look, launched

from manyheads import Translator, inspect
from manyheads.inspection.switches import Head

pytest.importorskip("jupyterlab", reason="needs jupyterlab, of the extra `dev`")
pytest.importorskip("ipykernel", reason="needs ipykernel, of the extra `dev`")
from lab import jupyterlab, notebook

pytestmark = pytest.mark.slow

FIRST, SECOND = "Ein kleiner Hund schläft unter dem Tisch.", "Zwei Katzen trinken Milch."
HOSTILE = '</script></iframe><img src=x onerror=alert(1)> \u202eelif\u202c \u2028 "quoted" <b>'
CELLS = (
    f"from manyheads import Translator, inspect\nmodel = Translator.load('de-en', 'cpu')\ninspect(model, {FIRST!r})",
    f"inspect(model, {SECOND!r})",
    f"inspect(model, {HOSTILE!r}, {HOSTILE!r})",
    # As if anywidget were not installed.
    "import sys\nsys.modules['anywidget'] = None\ndel sys.modules['manyheads.inspection.widget']\n"
    f"inspect(model, {SECOND!r})",
)
ALL_READY = (
    "() => document.querySelectorAll('.jp-OutputArea-output .manyheads-inspector[data-state=ready]').length === 3"
)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """The notebook, with every cell run."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "look.ipynb").write_text(notebook(*CELLS), encoding="utf-8")
    with launched() as browser, jupyterlab(folder) as address:
        look = Look(browser, address("look.ipynb"), ready=False)
        look.page.set_default_timeout(60_000)
        look.sockets = []
        look.page.on("websocket", lambda socket: look.sockets.append(socket.url))
        look.page.wait_for_selector("text=/\\| Idle/")
        look.page.get_by_role("menuitem", name="Run", exact=True).click()
        look.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        look.page.wait_for_function(ALL_READY)
        look.page.wait_for_selector("iframe[srcdoc]")
        yield look


@pytest.fixture
def page(opened):
    """Nothing may have left this machine, and no text may have run, whatever a test did."""
    yield opened.page
    hosts = {urlsplit(url).hostname for url in opened.requests if not url.startswith(("data:", "blob:", "about:"))}
    assert hosts == {"127.0.0.1"}
    assert {urlsplit(url).hostname for url in opened.sockets} <= {"127.0.0.1"}
    assert opened.dialogs == []


@pytest.fixture(scope="module")
def found():
    return inspect(Translator.load("de-en", "cpu"), FIRST)


def widget(page, n):
    return page.locator(".jp-OutputArea-output .manyheads-inspector").nth(n)


def said(page, n):
    return widget(page, n).locator(".live").inner_text()


def go_to(page, n, view):
    widget(page, n).get_by_role("tab", name=view).click()
    page.wait_for_function(ALL_READY)


def test_every_widget_shows_its_own_sentence(page, found):
    assert found.translation in widget(page, 0).locator("header").inner_text()
    assert widget(page, 0).locator("textarea").input_value() == FIRST
    assert widget(page, 1).locator("textarea").input_value() == SECOND
    for n in (0, 1):
        assert widget(page, n).locator(".links path").count() > 0


def test_pointing_at_a_word_lights_up_what_belongs_to_it_in_that_widget_alone(page):
    go_to(page, 0, "Translate and align")
    go_to(page, 1, "Translate and align")
    widget(page, 0).locator(".line.translation .word", has_text="dog").hover()
    assert "Hund" in said(page, 0)
    assert widget(page, 0).locator(".lit").count() > 0
    assert said(page, 1) == ""
    assert widget(page, 1).locator(".lit").count() == 0


def test_keys_act_on_their_own_widget_and_not_on_the_notebook(page, found):
    go_to(page, 1, "Translate and align")
    go_to(page, 0, "Matrix")
    board = widget(page, 0).locator(".board")
    board.focus()
    for key in ("ArrowDown", "ArrowRight", "a", "x", "b", "b"):  # in a notebook: a cell above, cut, a cell below
        board.press(key)
    page.wait_for_function(ALL_READY)
    heads, reading = found.attention["cross"][found.reading.layer], found.reading
    weights = heads.mean(0) if reading.head is None else heads[reading.head]
    assert f"‘A’ → ‘kleiner’: {weights[0, 1]:.4f}" in said(page, 0)
    assert page.locator(".jp-Notebook .jp-Cell").count() == len(CELLS)
    layers = widget(page, 0).locator("fieldset[aria-label=Layer]")
    layers.locator("input:checked").focus()
    page.keyboard.press("ArrowDown")  # a radio button's own key, which notebooks take for the next cell
    page.wait_for_function(ALL_READY)
    assert layers.locator("input:checked").get_attribute("value") == str(found.reading.layer + 1)
    assert widget(page, 1).get_by_role("tab", selected=True).inner_text() == "Translate and align"


def test_a_head_that_is_switched_off_is_asked_of_the_kernel(page, found):
    go_to(page, 0, "Head switchboard")
    widget(page, 0).get_by_role("switch", name="cross layer 3, head 1").click()
    widget(page, 0).locator("header", has_text="cross 3.1").wait_for()
    page.wait_for_function(ALL_READY)
    without = inspect(found.translator, FIRST, off=[Head("cross", 3, 1)])
    assert without.translation in widget(page, 0).locator("header").inner_text()
    assert f"{without.log_probability:.2f}".replace("-", "−") in widget(page, 0).locator("header").inner_text()
    assert "without" not in widget(page, 1).locator("header").inner_text()
    widget(page, 0).get_by_role("button", name="All on").click()
    widget(page, 0).locator("header", has_text=found.translation).wait_for()


def test_hostile_texts_are_texts(page):
    go_to(page, 2, "Translate and align")  # which brings it into view: what is not seen has no text
    text = widget(page, 2).locator("header").inner_text()
    assert "</script></iframe><img src=x onerror=alert(1)>" in text
    assert "‹U+202E›" in text
    for view in ("Matrix", "Decoding steps", "Query and key"):
        go_to(page, 2, view)
        assert widget(page, 2).locator("img, script, style, iframe, b:has-text('quoted')").count() == 0


def test_the_notebook_does_not_restyle_it(page):
    """JupyterLab floats every list of definitions in an output, and sets its terms in bold."""
    for n in (0, 1):
        go_to(page, n, "Translate and align")
        facts = widget(page, n).locator(".facts").first
        # In one go: an answer that is still on its way may draw it anew at any moment.
        floats = facts.evaluate("(it) => [...it.querySelectorAll('dt')].map((dt) => getComputedStyle(dt).float)")
        assert set(floats) == {"none"}
        ends = facts.evaluate("""(it) => [...it.children].map((div) => [
            div.querySelector("dt").getBoundingClientRect().right, div.querySelector("dd").getBoundingClientRect().left])""")
        assert len(ends) >= 3
        assert all(right <= left for right, left in ends)


def test_without_anywidget_it_is_in_a_frame_that_reaches_nothing(page):
    page.locator("iframe[srcdoc]").scroll_into_view_if_needed()
    frame = page.frame_locator("iframe[srcdoc]")
    frame.locator("[data-state=ready]").wait_for()
    assert SECOND in frame.locator("header").inner_text()
    frame.get_by_role("tab", name="Matrix").click()
    frame.locator("[data-state=ready] .board canvas").wait_for()
    assert frame.locator("textarea").count() == 0  # nobody there to ask
    assert page.frames[-1].evaluate("origin") == "null"
