"""The served page in a real browser: it translates what is typed, and answers what would have been otherwise."""

import json
import re
import signal
import urllib.parse
import urllib.request
from functools import partial

import pytest

from inspection.browser import launched, opening
from serve.test_serve import start

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
HOSTILE = '</script><img src=x onerror=alert(1)> \u202eelif\u202c "quoted" & <b> #text=%00'
LONG = " ".join(f"Am {day} Tag sah der kleine Hund einen großen Vogel." for day in ("ersten", "zweiten", "dritten"))


@pytest.fixture(scope="module")
def address():
    process = start("--port", "0")
    yield process.stderr.readline().split()[0]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture
def look(browser, address):
    """Opens the page; nothing may leave this server, and nothing may be complained of."""
    with opening(browser, address) as open_at:
        yield partial(open_at, address)


def answered(page):
    page.page.wait_for_selector("[aria-busy=false] .found header")
    return page.ready()


def translate(page, text):
    page.page.locator("textarea").fill(text)
    page.page.locator("textarea").press("Enter")
    return answered(page)


def translation(page):
    return page.page.locator("header bdi").last.inner_text()


def asked(address, **question):
    request = urllib.request.Request(
        f"{address}/api/inspect", json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


# ── the box ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_typed_is_translated_and_the_address_holds_it(look, address):
    page = look()
    assert page.page.get_by_role("tab").count() == 0
    translate(page, TEXT)
    assert translation(page) == asked(address, text=TEXT)["translation"]
    assert page.page.locator(".line.source .word").count() == 8
    assert page.page.url.endswith(f"#text={urllib.parse.quote(TEXT)}")
    again = answered(look(page.page.url.partition("#")[2]))
    assert translation(again) == translation(page)
    assert again.page.locator("textarea").input_value() == TEXT


def test_an_empty_box_translates_its_example(look):
    page = look()
    page.page.get_by_role("button", name="Translate").click()
    answered(page)
    assert page.page.locator("textarea").input_value() == TEXT
    assert "Translation: A little dog" in page.page.locator(".ask").text_content()


@pytest.mark.slow
def test_a_new_text_keeps_the_view_and_back_returns_to_the_old(look):
    page = look()
    translate(page, TEXT)
    page.page.get_by_role("tab", name="Decoding steps").click()
    page.page.locator(".steps .word").nth(3).click()
    page.ready()
    translate(page, "Ein Hund schläft.")
    assert translation(page) == "A dog is sleeping."
    assert page.said.startswith("step 1 of")
    page.page.go_back()
    page.page.wait_for_function("() => document.querySelector('textarea').value.startsWith('Ein kleiner')")
    page.page.wait_for_function("() => document.querySelector('header').textContent.includes('little')")
    answered(page)
    assert page.said.startswith("step 4 of")


@pytest.mark.slow
def test_a_long_text_is_read_in_parts(look, address):
    page = look()
    parts = asked(address, text=LONG)["parts"]
    assert parts > 1
    translate(page, LONG)
    assert page.text(".parts span") == f"part 1 of {parts}"
    page.page.get_by_role("button", name="Next part").click()
    page.page.wait_for_function(f"() => document.querySelector('.parts').textContent.includes('part 2 of {parts}')")
    answered(page)
    assert page.texts("header bdi")[0] == asked(address, text=LONG, part=2)["source"]["text"]
    assert page.page.url.endswith("&part=2")
    assert page.page.evaluate("document.activeElement.ariaLabel") == "Next part"


def test_a_refusal_is_one_sentence_and_what_was_there_stays(look):
    page = look("text=%E0%A4&v=nothing")  # an address that is no text asks nothing
    translate(page, TEXT)
    page.page.locator("textarea").fill("x" * 10_001)
    page.page.locator("textarea").press("Enter")
    page.page.wait_for_selector(".status.warning")
    assert page.text(".status") == "Text: String should have at most 10000 characters."
    assert translation(page).startswith("A little dog")
    assert [text for text in page.complaints if "400" not in text] == []
    page.complaints.clear()  # browsers note every refused request
    translate(page, "Ein Hund schläft.")
    assert page.page.locator(".status.warning").count() == 0


def test_a_server_that_is_gone_is_one_sentence(look):
    page = look()
    page.page.route("**/api/**", lambda route: route.abort())
    page.page.locator("textarea").press("Enter")
    page.page.wait_for_selector(".status.warning")
    assert page.text(".status") == "The server does not answer: is it still running?"
    page.complaints.clear()


def test_of_two_questions_the_later_is_answered(look):
    page = look()
    held = []
    page.page.route("**/api/inspect", lambda route: held.append(route) if not held else route.continue_())
    page.page.locator("textarea").fill(TEXT)
    page.page.locator("textarea").press("Enter")
    page.page.wait_for_selector("[aria-busy=true]")
    while not held:
        page.page.wait_for_timeout(10)
    translate(page, "Ein Hund schläft.")
    assert translation(page) == "A dog is sleeping."


@pytest.mark.slow
def test_hostile_texts_are_inert(look):
    page = look()
    translate(page, HOSTILE)
    assert page.page.locator("textarea").input_value() == HOSTILE
    for name in ("Matrix", "Decoding steps", "Head switchboard", "Translate and align"):
        page.page.get_by_role("tab", name=name).click()
        page.ready()
        assert page.page.evaluate("document.querySelectorAll('img, main script, main style, main b').length") == 0
    again = answered(look(page.page.url.partition("#")[2]))
    assert again.page.locator("textarea").input_value() == HOSTILE


# ── another candidate ───────────────────────────────────────────────────────────────────────────────────────────────


def test_another_candidate_goes_on_from_there_and_back(look, address):
    page = look(f"text={urllib.parse.quote(TEXT)}&v=steps&t=2")
    answered(page)
    before = translation(page)
    header = asked(address, text=TEXT)
    small = next(one for one in header["steps"][1]["candidates"] if one["text"] == " small")
    page.page.locator("button.candidate", has_text="small").first.click()
    page.page.wait_for_selector(".compared:not([hidden])")
    answered(page)
    assert translation(page) == asked(address, text=TEXT, prefix="A" + small["adds"])["translation"]
    assert page.texts(".compared del") == ["little"]
    assert page.texts(".compared ins")[0] == "small"
    assert page.said.startswith("step 2 of")
    assert "now" in page.page.evaluate("document.activeElement.className")
    page.page.get_by_role("button", name="Back to the previous translation").click()
    page.page.wait_for_selector(".compared", state="hidden")
    assert translation(answered(page)) == before


def test_an_end_can_be_chosen_and_keys_are_enough(look):
    page = look(f"text={urllib.parse.quote('Nein, danke.')}&v=steps&beam=1")
    answered(page)
    last = page.page.locator(".steps .word").count()
    for n in range(last):
        page.page.locator(".steps .word").nth(n).click()
        page.ready()
        if page.page.locator("button.candidate", has_text="⟨end⟩").count():
            break
    shown = page.texts(".steps .label")[:n]
    page.page.locator(".steps .now").focus()
    for _ in range(10):
        page.page.keyboard.press("ArrowDown")
        if "⟨end⟩" in page.page.evaluate("document.activeElement.textContent"):
            break
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector(".compared:not([hidden])")
    answered(page)
    assert page.texts(".steps .label")[-1] == "⟨end⟩"
    assert page.texts(".steps .label")[:n] == shown
    assert page.page.locator(".steps .word").count() == n + 1


# ── heads that are off ──────────────────────────────────────────────────────────────────────────────────────────────


def number(text):
    return float(re.search(r"−?\d[\d.]*", text)[0].replace("−", "-"))


def test_another_hypothesis_of_the_beam_is_shown_by_all_views_and_back(look, address):
    page = look("v=beam")
    translate(page, TEXT)
    first = translation(page)
    nodes = asked(address, text=TEXT)["search"]["nodes"]
    pruned = next(n for n, node in enumerate(nodes) if node["status"] == "pruned" and node["step"] == 3)
    page.page.locator(f"[data-node='{pruned}']").click()
    page.ready()
    page.page.get_by_role("button", name="Show it in all views").click()
    page.page.wait_for_function("() => document.querySelector('header').textContent.includes('given')")
    answered(page)
    assert translation(page) == page.text(".hypothesis .lead bdi") != first
    assert f"\n−{-nodes[pruned]['total']:.2f}\n" in page.text("header .facts")
    assert page.page.locator("[data-node]").count() == len(nodes)  # the tree that it comes from
    assert page.page.locator("[aria-pressed=true][data-node]").get_attribute("data-node") == str(pruned)
    page.page.get_by_role("tab", name="Decoding steps").click()
    page.ready()
    assert page.page.locator(".steps .word").count() == 4
    page.page.get_by_role("tab", name="Beam tree").click()
    page.ready()
    page.page.get_by_role("button", name="Back to the previous translation").click()
    page.page.wait_for_function("() => !document.querySelector('header').textContent.includes('given')")
    answered(page)
    assert translation(page) == first


def test_a_head_that_is_switched_off_changes_what_is_likely(look, address):
    page = look(f"text={urllib.parse.quote(TEXT)}&v=switches")
    answered(page)
    whole = asked(address, text=TEXT)
    switch = page.page.get_by_role("switch", name="cross layer 3, head 1")
    switch.focus()
    page.page.keyboard.press("Space")
    page.page.wait_for_selector(".outcome .compared")
    answered(page)
    off = [{"kind": "cross", "layer": 3, "head": 1}]
    assert translation(page) == asked(address, text=TEXT, off=off)["translation"]
    forced = asked(address, text=TEXT, target=whole["translation"], off=off)["log_probability"]
    assert number(page.text(".outcome .facts dd")) == pytest.approx(forced - whole["log_probability"], abs=2e-3)
    assert switch.get_attribute("aria-checked") == "false"
    assert page.page.evaluate("document.activeElement.ariaLabel") == "cross layer 3, head 1"
    assert "cross 3.1" in page.text("header")
    page.page.get_by_role("button", name="All on").click()
    page.page.wait_for_function("() => !document.querySelector('header').textContent.includes('cross 3.1')")
    assert translation(answered(page)) == whole["translation"]


@pytest.mark.slow
def test_a_head_that_is_off_can_give_its_mean(look, address):
    page = look(f"text={urllib.parse.quote(TEXT)}&v=switches")
    answered(page)
    whole, off = asked(address, text=TEXT), [{"kind": "cross", "layer": 0, "head": 0}]
    page.page.get_by_role("switch", name="cross layer 0, head 0").click()
    page.page.wait_for_selector(".outcome .compared")
    by_nothing = number(page.text(".outcome .facts dd"))
    page.page.get_by_role("radio", name="its mean").check()
    page.page.wait_for_function("() => document.querySelector('header').textContent.includes('their means')")
    answered(page)
    forced = asked(address, text=TEXT, target=whole["translation"], off=off, instead="mean")["log_probability"]
    by_mean = number(page.text(".outcome .facts dd"))
    assert by_mean == pytest.approx(forced - whole["log_probability"], abs=2e-3)
    assert by_mean != pytest.approx(by_nothing, abs=0.01)
    page.page.get_by_role("button", name="Rank heads").click()
    page.page.wait_for_selector(".two")
    shown = page.page.locator(".switch[aria-label='cross layer 0, head 0']").get_attribute("title")
    assert number(shown.split()[-1]) == pytest.approx(by_mean, abs=2e-3)
    page.page.get_by_role("radio", name="nothing").check()
    page.page.wait_for_function("() => !document.querySelector('.two')")


@pytest.mark.slow
def test_layers_and_kinds_are_switched_by_their_labels(look, address):
    page = look(f"text={urllib.parse.quote(TEXT)}&v=switches")
    answered(page)
    page.page.get_by_role("button", name="cross layer 2", exact=True).click()
    page.page.wait_for_function("() => document.querySelector('header').textContent.includes('4 heads')")
    assert page.page.locator(".switch.off").count() == 4
    page.page.get_by_role("button", name="all cross heads").click()
    page.page.wait_for_function("() => document.querySelector('header').textContent.includes('16 heads')")
    answered(page)
    every = [{"kind": "cross", "layer": layer, "head": head} for layer in range(4) for head in range(4)]
    assert translation(page) == asked(address, text=TEXT, off=every)["translation"]
    assert page.page.locator(".outcome ins").count() > 0
    page.page.get_by_role("button", name="all cross heads").click()
    page.page.wait_for_function("() => !document.querySelector('header').textContent.includes('heads')")
    assert page.page.locator(".switch.off").count() == 0


@pytest.mark.slow
def test_heads_are_ranked_and_the_ranking_outlasts_a_switch(look):
    page = look(f"text={urllib.parse.quote(TEXT)}&v=switches")
    answered(page)
    page.page.get_by_role("button", name="Rank heads").click()
    page.page.wait_for_selector(".two")
    needed = [number(text) for text in page.page.locator(".two ol").first.locator(".number").all_inner_texts()]
    assert len(needed) == 10
    assert needed == sorted(needed)
    first = page.page.locator(".two button.label").first
    name = first.inner_text()
    first.click()
    page.page.wait_for_selector(".outcome .compared")
    answered(page)
    assert name in page.text("header")
    assert number(page.text(".outcome .facts dd")) == pytest.approx(needed[0], rel=1e-3)
    assert page.page.locator(".two button.label").first.inner_text() == name


def test_attributions_are_computed_when_they_are_looked_at(look, address):
    page = look("v=attribution")
    translate(page, "Ein Hund schläft.")
    page.page.wait_for_selector(".attribution:not(.missing) .board canvas")
    assert page.said.startswith("value-zeroing: agreement")
    page.page.get_by_role("radio", name="leave-one-out").check()
    page.page.wait_for_function("() => document.querySelector('[aria-live]').textContent.startsWith('leave-one-out')")
    number = asked(address, text="Ein Hund schläft.")["number"]
    request = urllib.request.Request(
        f"{address}/api/attribution/{number}", b'{"method": "leave-one-out"}', {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        told = json.loads(answer.read())
    page.page.get_by_role("radio", name="pieces").check()
    page.ready()
    shown = [[float(cell) for cell in row[1:]] for row in page.table()[1:]]
    for row, expected in zip(shown, told["source"], strict=True):
        assert row == pytest.approx(expected, abs=2e-5)
    page.page.get_by_role("tab", name="Translate and align").click()
    page.ready()
    page.page.get_by_role("radio", name="attribution").check()
    page.ready()
    assert "leave-one-out" in page.text(".align .aside")


# ── compare ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_that_is_kept_is_compared_with_the_next(look):
    page = look(f"text={urllib.parse.quote(TEXT)}&v=compare")
    answered(page)
    assert page.page.locator(".who-is").count() == 0
    page.page.get_by_role("button", name="Keep this result").click()
    assert "This result is kept" in page.text(".compare .lead")
    translate(page, "Ein großer Hund schläft unter dem Tisch.")
    page.page.wait_for_selector(".apart .switch")
    assert TEXT in page.text(".who-is[aria-label=A]")
    assert "großer" in page.text(".who-is[aria-label=B]")
    assert len(page.table()) > 10
    page.page.get_by_role("button", name="Discard kept result").click()
    assert page.page.locator(".who-is:visible").count() == 0


def test_heads_that_are_off_are_compared_with_the_whole_model(look):
    page = look(f"text={urllib.parse.quote(TEXT)}&v=switches")
    answered(page)
    page.page.get_by_role("switch", name="cross layer 2, head 0").click()
    page.page.locator("header", has_text="cross 2.0").wait_for()
    page.page.get_by_role("tab", name="Compare").click()
    page.page.wait_for_selector(".apart .switch")
    assert "cross 2.0" not in page.text(".who-is[aria-label=A]")
    assert "cross 2.0" in page.text(".who-is[aria-label=B]")
    distances = [
        float(one.get_attribute("aria-label").split(": ")[1]) for one in page.page.locator(".apart .switch").all()
    ]
    assert max(distances) > 0.01
