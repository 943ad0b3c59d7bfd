"""A host that can answer, as a notebook would be: what the page asks it, and what it makes of the answers."""

import json
import random

import pytest
from browser import Look, embedded

from manyheads.inspection.api import inspect
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.singlefile import script, style

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
PLAIN = {
    "beam": 0, "iterations": 0, "length": "", "part": 1, "target": None, "prefix": "", "ids": None, "off": [], "iteration": 0, "instead": "zero",
    "against": None,
}  # fmt: skip

HOST = """<!doctype html><meta charset="utf-8"><style>{style}</style><div id="a"></div>
<script type="application/json" id="data">{data}</script>
<script type="module">{script}
const data = JSON.parse(document.getElementById("data").textContent);
const listeners = {{}};
window.sent = [];
window.tell = (name, ...what) => listeners[name].forEach((act) => act(...what));
window.answer = (patch) => {{ data.header = {{ ...data.header, ...patch }}; tell("change:header"); }};
window.changesOf = (a, b) => changesOf(a, b).map((places) => [...places]);
inspector.render({{ el: document.getElementById("a"), model: {{
  get: (key) => data[key],
  on: (name, act) => (listeners[name] = [...(listeners[name] || []), act]), off: () => {{}},
  send: (message) => {{ if (message.type !== "plane") sent.push(message); }},
}} }});
</script>"""


@pytest.fixture(scope="module")
def header():
    return make_bundle(inspect("de-en", TEXT)).header | {"live": True, "number": 7, "text": TEXT, "against": None}


@pytest.fixture
def host(browser, header, tmp_path):
    path = tmp_path / "host.html"
    path.write_text(HOST.format(style=style(), script=script(), data=embedded({"header": header})), encoding="utf-8")
    page = Look(browser, path, ready=False)
    page.page.get_by_role("tab", name="Decoding steps").click()
    page.page.wait_for_selector(".candidates li")
    yield page
    assert page.complaints == []
    page.page.close()


def sent(page, count):
    page.page.wait_for_function(f"() => sent.length === {count}")
    return page.page.evaluate("sent")[-1]


def tell(page, message):
    page.page.evaluate(f"tell('msg:custom', {json.dumps(message)}, [])")


def test_any_host_that_can_answer_has_the_box(host):
    assert host.page.locator("textarea").input_value() == TEXT
    host.page.locator("textarea").fill("Ein Hund.")
    host.page.locator("textarea").press("Enter")
    assert sent(host, 1) == {"type": "inspect", "text": "Ein Hund.", **PLAIN}
    assert host.page.locator("#a").get_attribute("aria-busy") == "true"
    host.page.evaluate("answer({ number: 8, translation: 'other', text: 'Ein Hund.' })")
    assert host.page.locator("#a").get_attribute("aria-busy") == "false"
    assert host.page.get_by_role("tab", selected=True).inner_text() == "Decoding steps"
    assert host.page.evaluate("document.activeElement.tagName") == "TEXTAREA"
    assert host.page.evaluate("location.hash") == ""


def test_letters_that_are_being_composed_are_not_sent(host):
    host.page.evaluate("""() => document.querySelector("textarea").dispatchEvent(
        new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true }))""")
    host.page.wait_for_timeout(50)
    assert host.page.evaluate("sent") == []


def test_keys_that_are_typed_into_the_box_do_nothing_else(host):
    host.page.locator("textarea").fill("")
    host.page.locator("textarea").press_sequentially("w?2 b")
    assert host.page.locator("textarea").input_value() == "w?2 b"
    assert host.page.get_by_role("tab", selected=True).inner_text() == "Decoding steps"
    assert host.page.locator(".keys").is_hidden()


def test_another_candidate_is_a_prefix_and_a_refusal_is_shown_beside_it(host, header):
    host.page.locator(".steps .word").nth(2).click()
    second = header["steps"][2]["candidates"][1]
    host.page.locator("button.candidate").first.click()
    asked = sent(host, 1)
    assert asked["prefix"] == f"A little{second['text']}"
    tell(host, {"type": "refused", "error": "a rule was broken, got 3", "hint": "try 2"})
    assert host.text(".decoding .note") == "A rule was broken, got 3 (try 2)"
    assert host.page.locator(".status.warning").count() == 0
    assert host.page.locator(".decoding .compared").is_hidden()
    host.page.locator("button.candidate").last.click()
    assert sent(host, 2)["prefix"] != asked["prefix"]


def test_switches_that_are_turned_in_one_go_are_asked_about_once(host):
    host.page.get_by_role("tab", name="Head switchboard").click()
    host.page.get_by_role("switch").nth(1).focus()
    host.page.evaluate("[0, 1, 5, 1].forEach((n) => document.querySelectorAll('[role=switch]')[n].click())")
    asked = sent(host, 1)
    assert asked["off"] == [{"kind": "encoder", "layer": 0, "head": 0}, {"kind": "encoder", "layer": 1, "head": 1}]
    assert asked["against"] == 7
    held = "{ off: [['encoder', 0, 0], ['encoder', 1, 1]], number: 9, against: { number: 7, change: -5 } }"
    host.page.evaluate(f"answer({held})")
    assert "Without 2 heads" in host.text(".outcome")
    assert "−5.000 148 times less likely" in host.text(".outcome .facts")
    assert host.page.evaluate("document.activeElement.ariaLabel") == "encoder layer 0, head 1"


def test_a_ranking_of_another_answer_is_not_shown(host, header):
    host.page.get_by_role("tab", name="Head switchboard").click()
    host.page.get_by_role("button", name="Rank heads").click()
    assert sent(host, 1) == {"type": "importance", "number": 7, "instead": "zero"}
    heads = [
        {"kind": kind, "layer": layer, "head": head, "change": -1.0}
        for kind, layers in header["model"]["layers"].items()
        for layer in range(layers)
        for head in range(4)
    ]
    for about in ({"number": 6, "instead": "zero"}, {"number": 7, "instead": "mean"}):
        tell(host, {"type": "importance", "heads": heads, **about})
        assert host.page.locator(".two").count() == 0
    tell(host, {"type": "importance", "number": 7, "instead": "zero", "heads": heads})
    assert host.page.locator(".two").count() == 1
    assert host.texts(".two .rest") == ["none"]


def common(a, b):
    """The length of the longest common sequence, by its definition."""
    if not a or not b:
        return 0
    return common(a[1:], b[1:]) + 1 if a[0] == b[0] else max(common(a[1:], b), common(a, b[1:]))


def test_what_two_texts_have_in_common_is_the_most_that_they_can(host):
    drawn = random.Random(0)
    for _ in range(60):
        a, b = ([drawn.choice("abc") for _ in range(drawn.randrange(8))] for _ in range(2))
        gone, added = host.page.evaluate("([a, b]) => changesOf(a, b)", [a, b])
        kept = [x for n, x in enumerate(a) if n not in gone]
        assert kept == [x for n, x in enumerate(b) if n not in added]
        assert len(kept) == common(a, b)
    a, b = [f"w{n}" for n in range(300)], [f"w{n}" for n in range(0, 300, 2)]
    gone, added = host.page.evaluate("([a, b]) => changesOf(a, b)", [a, b])
    assert (len(gone), added) == (150, [])
