"""The served page of models that write all tokens at once, in a real browser."""

from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from inspection.browser import assert_drawn, launched, opening
from inspection.parallels import HOSTILE, TEXT, TITLES, VIEWS
from manyheads import inspect
from manyheads.inspection.importance import log_probability
from manyheads.inspection.switches import Head
from serve.test_page_live import answered, number, translate, translation
from serve.test_serve import asked

FIELDS = {"mask": ["Iterations", "Length"], "end": ["Iterations"], "graph": ["Length"]}
TOLD = {"mask": {"iterations": 3, "length": "7"}, "end": {"iterations": 3}, "graph": {"length": "4"}}


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture
def look(browser, addresses):
    """Opens a model's page; nothing may leave its server, and nothing may be complained of."""
    with opening(browser, *addresses.values()) as open_at:
        yield lambda writes, at="", **options: open_at(addresses[writes], at, **options)


@pytest.fixture
def shown(look):
    """The page of a model that has translated a text."""

    def open_and_ask(writes, at="", **options):
        return translate(look(writes, at, **options), TEXT)

    return open_and_ask


def tell(page, name, value):
    field = page.page.get_by_label(name, exact=True)
    field.fill(value)
    with page.page.expect_response("**/api/inspect"):
        field.press("Enter")
    return answered(page)


def tell_in_vain(page, name, value):
    """The sentence by which it is refused. Browsers note every refused request: that is no complaint of the page."""
    field = page.page.get_by_label(name, exact=True)
    field.fill(value)
    with page.page.expect_console_message(lambda message: "400" in message.text):
        field.press("Enter")
    page.page.wait_for_selector(".status.warning")
    assert ["400" in text for text in page.complaints] == [True]
    page.complaints.clear()
    assert field.input_value() == value  # who typed it can mend it
    return page.text(".status")


def written(page):
    return page.page.locator("header .facts").inner_text().replace("\n", " ")


def test_it_begins_with_how_it_was_written_and_offers_what_makes_sense(shown, addresses, writes):
    page = shown(writes)
    assert translation(page) == asked(addresses[writes], text=TEXT)[1]["translation"]
    first = "Graph" if writes == "graph" else "Iterations"
    assert page.texts("[role=tab]") == [first, *TITLES]
    assert page.text("[role=tab][aria-selected=true]") == first
    assert page.texts(".ask .name") == FIELDS[writes]
    assert page.page.locator("button.candidate, [aria-label=Beam]").count() == 0


def test_every_view_draws_and_can_be_saved(look, writes):
    page = answered(look(writes, f"text={quote(TEXT)}&iterations=4"))
    for view in VIEWS:
        if view == "attribution":  # which is computed when it is looked at
            page.page.get_by_role("tab", name="Attribution").click()
            page.page.wait_for_selector(".attribution:not(.missing) .board canvas")
        assert_drawn(page, view)


# ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_told_is_done_and_the_address_holds_it(shown, look, addresses, writes):
    page = shown(writes)
    for name, value in TOLD[writes].items():
        tell(page, name.capitalize(), str(value))
    expected = asked(addresses[writes], text=TEXT, **TOLD[writes])[1]
    assert translation(page) == expected["translation"]
    if writes == "graph":
        assert "a path through 4 of" in written(page)
    else:
        (taken,) = (one for one in expected["tries"] if one["taken"])
        assert f"{taken['length']} places in 3 iterations" in written(page)
        assert page.page.locator(".filled .row:has([role=gridcell])").count() == 3
    held = page.page.url.partition("#")[2]
    assert set(held.split("&")[1:]) == {f"{name}={value}" for name, value in TOLD[writes].items()}
    again = answered(look(writes, held))
    assert translation(again) == translation(page)
    for name, value in TOLD[writes].items():
        assert again.page.get_by_label(name.capitalize(), exact=True).input_value() == str(value)


def test_a_share_is_told_by_its_point(shown, look, addresses):
    page = shown("mask")
    for said in ("0.5", "2.0"):
        tell(page, "Length", said)
        (attempt,) = asked(addresses["mask"], text=TEXT, length=said)[1]["tries"]
        assert f"{attempt['length']} places" in written(page)
    again = answered(look("mask", page.page.url.partition("#")[2]))
    assert again.page.get_by_label("Length", exact=True).input_value() == "2.0"
    assert written(again) == written(page)
    tell(page, "Length", "")
    assert "&length" not in page.page.url
    assert page.page.locator("fieldset[aria-label='Lengths tried'] label").count() == 5


def test_what_is_told_before_a_text_waits_for_it(look):
    page = look("mask")
    page.page.get_by_label("Iterations", exact=True).fill("2")
    page.page.get_by_label("Length", exact=True).fill("5")
    page.page.locator("textarea").fill(TEXT)
    assert [url for url in page.requests if "/api/" in url] == []
    page.page.locator("textarea").press("Enter")
    answered(page)
    assert "5 places in 2 iterations" in written(page)
    assert len([url for url in page.requests if url.endswith("/api/inspect")]) == 1


def test_leaving_a_field_asks_and_leaving_it_as_it_was_does_not(shown):
    page = shown("mask")
    field = page.page.get_by_label("Iterations", exact=True)
    field.fill("2")
    with page.page.expect_response("**/api/inspect"):
        field.blur()
    answered(page)
    assert "in 2 iterations" in written(page)
    tell(page, "Iterations", "4")
    asked_so_far = len(page.requests)
    field.blur()
    page.page.wait_for_timeout(200)
    assert len([url for url in page.requests[asked_so_far:] if "inspect" in url]) == 0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("Length", "nine", "Length must be a number of pieces from 1 to 4,096, or a share from 0.01 to 100 with a decimal point, got 'nine'"),
        ("Length", "600", "Length must be at most 512 in an inspection, got 600."),
        ("Iterations", "65", "Iterations: Input should be less than or equal to 64."),
        ("Iterations", "1.5", "Iterations: Input should be a valid integer"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused_in_a_sentence_and_what_was_there_stays(shown, name, value, said):
    page = shown("mask")
    before = translation(page)
    assert tell_in_vain(page, name, value).startswith(said)
    assert translation(page) == before
    tell(page, name, "3")
    assert page.page.locator(".status.warning").count() == 0


def test_an_address_tells_a_model_only_what_it_can_be_told(look, addresses, writes):
    page = answered(look(writes, "text=Hund&beam=4&iterations=2&length=3&part=1"))
    told = {name: value for name, value in {"iterations": 2, "length": "3"}.items() if name.capitalize() in FIELDS[writes]}  # fmt: skip
    assert translation(page) == asked(addresses[writes], text="Hund", **told)[1]["translation"]
    assert page.page.locator(".status.warning").count() == 0


def test_an_address_that_makes_no_sense_is_ignored(look):
    page = answered(look("mask", "text=Hund&iterations=999&length=%3Cb%3E"))
    assert page.page.get_by_label("Iterations", exact=True).input_value() == ""
    assert page.page.get_by_label("Length", exact=True).input_value() == ""


# ── what if ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_heads_of_another_iteration_are_shown_by_all_views(shown, folders):
    page = tell(shown("mask"), "Iterations", "4")
    show = page.page.get_by_role("button", name="Show its heads")
    assert show.get_attribute("aria-disabled") == "true"  # of the last they are shown
    page.page.get_by_title("Previous iteration").click()
    page.page.get_by_title("Previous iteration").click()
    page.ready()
    with page.page.expect_response("**/api/inspect"):
        show.click()
    answered(page)
    assert page.said.startswith("iteration 2 of 4")
    assert page.page.get_by_role("button", name="Show its heads").get_attribute("aria-disabled") == "true"
    page.page.get_by_role("tab", name="Matrix").click()
    page.ready()
    assert "Heads and vectors are those of iteration 2 of 4" in page.text(".notes")
    expected = inspect(folders["mask"], TEXT, iterations=4, iteration=2).attention["decoder"][1][2].numpy()
    page.page.get_by_role("radio", name="pieces").check()
    page.page.get_by_role("radio", name="decoder").check()
    page.page.locator("fieldset[aria-label=Layer] label").nth(1).click()
    page.page.locator("fieldset[aria-label=Head] label").nth(3).click()
    page.ready()
    for row, weights in zip(page.table()[1:], expected, strict=True):
        assert [float(cell) for cell in row[1:]] == pytest.approx(weights.tolist(), abs=1e-3)
    page.page.get_by_role("tab", name="Iterations").click()
    page.page.locator(".filled .corner[role=rowheader]").last.click()
    page.ready()
    with page.page.expect_request("**/api/inspect") as request:
        page.page.get_by_role("button", name="Show its heads").click()
    assert request.value.post_data_json["iteration"] == 0  # the last, whichever that is
    page.page.wait_for_selector("[aria-busy=false] [aria-disabled=true][title*='in this iteration']")


def test_heads_of_a_length_that_was_not_taken_are_not_offered(shown):
    page = shown("mask", "i=0")
    assert page.page.get_by_role("button", name="Show its heads").get_attribute("aria-disabled") == "false"
    page.page.locator("fieldset[aria-label='Lengths tried'] label").filter(has_not_text="●").first.click()
    page.ready()
    assert page.page.get_by_role("button", name="Show its heads").get_attribute("aria-disabled") == "true"


def test_a_head_that_is_switched_off_changes_what_is_likely(shown, addresses, folders, writes):
    page = shown(writes, "v=switches")
    whole = inspect(folders[writes], TEXT)
    page.page.get_by_role("switch", name="decoder layer 0, head 1").click()
    page.page.wait_for_selector(".outcome .compared")
    answered(page)
    off = Head("decoder", 0, 1)
    without = asked(addresses[writes], text=TEXT, off=[off._asdict()])[1]
    assert translation(page) == without["translation"]
    assert page.texts(".outcome .compared bdi") == [whole.translation.strip(), without["translation"].strip()]
    change = log_probability(whole, [off]) - log_probability(whole, ())
    assert number(page.text(".outcome .facts dd")) == pytest.approx(change, rel=2e-3)
    last = "" if writes == "graph" else f"what its iteration {whole.iteration} wrote"
    assert last in page.text(".outcome .facts dd")
    page.page.get_by_role("button", name="Rank heads").click()
    page.page.wait_for_selector(".two")
    title = page.page.locator(".switch[aria-label='decoder layer 0, head 1']").get_attribute("title")
    assert number(title.split()[-1]) == pytest.approx(change, rel=2e-3)
    page.page.get_by_role("button", name="All on").click()
    page.page.wait_for_function("() => !document.querySelector('header').textContent.includes('decoder 0.1')")
    assert translation(answered(page)) == whole.translation


def test_attributions_are_computed_when_they_are_looked_at(shown, writes):
    page = shown(writes, "v=attribution&w=0")
    page.page.wait_for_selector(".attribution:not(.missing) .board canvas")
    page.page.get_by_role("radio", name="leave-one-out").check()
    page.page.wait_for_function("() => document.querySelector('[aria-live]').textContent.startsWith('leave-one-out')")
    assert len(page.table()) > 3


# ── everywhere ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_fits_a_telephone(shown, writes):
    page = shown(writes, width=360, scheme="dark")
    tops = [page.page.get_by_label(name, exact=True).bounding_box()["y"] for name in FIELDS[writes]]
    assert len(set(tops)) == 1, "side by side"
    for view in VIEWS:
        page.go(f"v={view}")
        assert not page.page.evaluate("document.documentElement.scrollWidth > innerWidth"), view


def test_hostile_texts_are_inert(look, writes):
    page = look(writes)
    translate(page, HOSTILE)
    if "Length" in FIELDS[writes]:
        assert "<img src=x>" in tell_in_vain(page, "Length", "<img src=x>")
    assert page.page.evaluate("document.querySelectorAll('img, main script, main style, main b').length") == 0
    assert ElementTree.fromstring(page.saved("Save SVG")).tag.endswith("svg")
