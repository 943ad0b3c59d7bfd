"""Models that write all tokens at once, served: what they can be told, what they cannot, and that each of it is answered in words."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspection.parallels import TEXT
from manyheads import inspect
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.importance import log_probability, ranked
from manyheads.inspection.switches import Head
from serve.test_serve import VALUES, ask, asked

TOLD = {
    "mask": ({"iterations": 4, "length": "6"}, {"iterations": 4, "length": 6}),
    "end": ({"iterations": 3}, {"iterations": 3}),
    "graph": ({"length": "0.5"}, {"stretch": 0.5}),
}
"""What a page says, and the same in Python."""
UNSAID = {
    "beam": 0,
    "prefix": "",
    "target": None,
    "ids": None,
    "iterations": 0,
    "iteration": 0,
    "length": "",
    "off": [],
}
OFF = [{"kind": "cross", "layer": 1, "head": 0}, {"kind": "encoder", "layer": 0, "head": 2}]


@pytest.fixture(scope="module")
def found(folders):
    return {writes: inspect(folders[writes], TEXT, **TOLD[writes][1]) for writes in folders}


def test_the_answer_is_what_inspect_finds(addresses, found, writes):
    status, header = asked(addresses[writes], text=TEXT, **TOLD[writes][0])
    assert status == 200
    bundle = make_bundle(found[writes])
    expected = json.loads(json.dumps(bundle.header))
    exact = expected.keys() - {"score", "log_probability", "steps", "heads", "lens", "tries", "graph", "flow"}
    assert {key: header[key] for key in exact} == {key: expected[key] for key in exact}
    assert header["log_probability"] == pytest.approx(expected["log_probability"], abs=1e-4)
    assert header["live"] is True
    for name in ("cross/1", "decoder/0/q", "flow/target"):
        _, _, content = ask(f"{addresses[writes]}/api/planes/{header['number']}/{name}")
        stored = np.frombuffer(content, bundle.planes[name].dtype).reshape(bundle.planes[name].shape)
        assert np.abs(stored.astype("float64") - bundle.planes[name]).max() <= 1e-3


def test_iterations_and_lengths_are_told_as_to_translate(addresses, folders):
    def tries(**question):
        return asked(addresses["mask"], text=TEXT, **question)[1]["tries"]

    for iterations in (1, 3):
        assert {len(one["iterations"]) for one in tries(iterations=iterations)} == {iterations}
    assert [one["length"] for one in tries(length="7")] == [7]
    (shorter,) = tries(length="0.5")
    assert shorter["length"] == inspect(folders["mask"], TEXT, stretch=0.5).taken.length
    for length in (2, 5):
        assert len(asked(addresses["graph"], text=TEXT, length=str(length))[1]["graph"]["path"]) == length


def test_heads_are_those_of_the_iteration_that_is_asked_for(addresses, folders):
    status, header = asked(addresses["mask"], text=TEXT, iterations=4, iteration=2)
    expected = inspect(folders["mask"], TEXT, iterations=4, iteration=2)
    assert (status, header["iteration"]) == (200, 2)
    assert [piece["text"] for piece in header["read"]["pieces"]] == [piece.text for piece in expected.read.pieces]
    _, _, content = ask(f"{addresses['mask']}/api/planes/{header['number']}/decoder/1")
    weights = expected.attention["decoder"][1].numpy()
    assert np.abs(np.frombuffer(content, "float16").reshape(weights.shape) - weights).max() <= 1e-3


def test_what_a_page_sends_where_nothing_was_chosen_says_nothing(addresses, writes):
    status, header = asked(addresses[writes], text=TEXT, **UNSAID)
    assert status == 200
    assert header["translation"] == asked(addresses[writes], text=TEXT)[1]["translation"]


def test_the_page_says_what_its_model_can_be_told(addresses):
    tells = {writes: re.search(rb'data-tells="([^"]*)"', ask(address)[2])[1].split() for writes, address in addresses.items()}  # fmt: skip
    assert tells == {"mask": [b"iterations", b"length"], "end": [b"iterations"], "graph": [b"length"]}


# ── heads, attribution ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("instead", ["zero", "mean"])
def test_an_answer_is_held_against_another_one(addresses, found, writes, instead):
    """Of places that are filled in several times it is one iteration that is held: its change is not that of the whole."""
    question = {"text": TEXT, **TOLD[writes][0]}
    whole = asked(addresses[writes], **question)[1]
    held = asked(addresses[writes], **question, off=OFF, instead=instead, against=whole["number"])[1]
    heads = [Head(**one) for one in OFF]
    without = inspect(found[writes].translator, TEXT, off=heads, instead=instead, **TOLD[writes][1])
    assert held["translation"] == without.translation
    now, before = log_probability(found[writes], heads, without.means), log_probability(found[writes], ())
    assert held["against"]["number"] == whole["number"]
    assert held["against"]["log_probability"] == pytest.approx(now, abs=1e-4)
    assert held["against"]["change"] == pytest.approx(now - before, abs=1e-4)


def test_heads_are_ranked(addresses, found, writes):
    number = asked(addresses[writes], text=TEXT, **TOLD[writes][0])[1]["number"]
    status, _, body = ask(f"{addresses[writes]}/api/importance/{number}", b"{}")
    told = {(one["kind"], one["layer"], one["head"]): one["change"] for one in json.loads(body)}
    assert status == 200
    assert list(told.values()) == sorted(told.values())
    assert told == pytest.approx(
        {(one["kind"], one["layer"], one["head"]): one["change"] for one in ranked(found[writes])}, abs=1e-4
    )


@pytest.mark.parametrize("method", ["value-zeroing", "gradient-x-input", "leave-one-out", "integrated-gradients"])
def test_every_attribution_is_answered(addresses, found, writes, method):
    number = asked(addresses[writes], text=TEXT, **TOLD[writes][0])[1]["number"]
    body = json.dumps({"method": method}).encode()
    status, _, content = ask(f"{addresses[writes]}/api/attribution/{number}", body)
    assert status == 200
    expected = found[writes].attribute(method)
    np.testing.assert_allclose(json.loads(content)["source"], expected.source, atol=1e-4)
    np.testing.assert_allclose(json.loads(content)["target"], expected.target, atol=1e-4)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("writes", "question", "said"),
    [
        ("mask", {"prefix": "A"}, "a model that writes all at once takes no prefix, got 'A': it does not write from left to right"),
        ("graph", {"target": ""}, "a model that writes all at once takes no target, got '': it cannot be made to write a given text"),
        ("end", {"ids": [5, 2]}, "a model that writes all at once takes no ids, got [5, 2]: it cannot be made to write a given text"),
        ("mask", {"beam": 4}, "beam is for models that write token by token, got 4 for one that writes all at once"),
        ("end", {"length": "6"}, "length cannot be set for a model that writes up to an end, got 6"),
        ("end", {"length": "0.5"}, "stretch cannot be set for a model that writes up to an end, got 0.5"),
        ("graph", {"iterations": 2}, "iterations cannot be set for a graph, which is read once, got 2"),
        ("graph", {"iteration": 2}, "iteration must be from 1 to 1 for this text, got 2"),
        ("mask", {"iterations": 3, "iteration": 4}, "iteration must be from 1 to 3 for this text, got 4"),
        ("mask", {"length": "513"}, "length must be at most 512 in an inspection, got 513"),
    ],
)  # fmt: skip
def test_what_means_nothing_to_a_model_is_refused_in_words(addresses, writes, question, said):
    status, told = asked(addresses[writes], text=TEXT, **question)
    assert (status, told["error"]) == (400, said)


@pytest.mark.parametrize("name", ["iterations", "iteration"])
@pytest.mark.parametrize("number", [-1, 65, 10**30, 1.5, 1e300, "3", True, None, [2]])
def test_a_number_that_is_none_is_refused_by_its_name(addresses, name, number):
    status, told = asked(addresses["mask"], text=TEXT, **{name: number})
    assert status == 400
    assert told["error"].startswith(f"{name}: ")


@pytest.mark.parametrize(
    "length", ["x", "0", "-3", "4097", "0.001", "1000.5", "1e9", "nan", "9" * 20, " ", "\u0663.\u0663.", 12, 0.8, None, True]
)  # fmt: skip
def test_a_length_that_is_none_is_refused_by_its_name(addresses, length):
    status, told = asked(addresses["mask"], text=TEXT, length=length)
    assert status == 400
    assert told["error"].startswith(("length must be a number of pieces from 1 to 4,096, or a share", "length: "))


def test_a_share_that_is_too_much_is_refused(addresses):
    status, told = asked(addresses["mask"], text=TEXT, length="100.0")
    assert status == 400
    assert told["error"].startswith("this model can be inspected with texts of up to 512 pieces, got one of ")


NAMES = st.sampled_from(["text", "target", "prefix", "off", "part", "beam", "iterations", "iteration", "length", "instead", "against"])  # fmt: skip
LENGTHS = st.text("0123456789.-e", max_size=6)


@settings(max_examples=150)
@given(question=st.dictionaries(NAMES, VALUES | LENGTHS | st.integers(0, 70), max_size=4), text=st.text(max_size=30))
def test_no_question_breaks_it(addresses, question, text):
    for address in addresses.values():
        status, _, body = ask(f"{address}/api/inspect", json.dumps({"text": text} | question).encode())
        assert status < 500, body
        assert status == 200 or json.loads(body)["error"]
