"""The page on this machine: real processes, real requests, and those that must not be answered."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import Translator, inspect
from manyheads.inspection.bundle import make_bundle

TEXT = "Ein kleiner Hund schläft unter dem Tisch."
JSON = {"Content-Type": "application/json"}


def start(*words, model="de-en"):
    command = [sys.executable, "-m", "manyheads", "serve", str(model), "--device", "cpu", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def address():
    process = start("--port", "0")
    yield process.stderr.readline().split()[0]
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)  # people press twice
    out, said = process.communicate(timeout=30)
    assert (process.returncode, out, said) == (0, "", "")


def ask(url, body=None, headers=None):
    """(status, headers, bytes)"""
    request = urllib.request.Request(url, body, JSON | (headers or {}) if body is not None else headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.status, refusal.headers, refusal.read()


def asked(address, **question):
    status, _, body = ask(f"{address}/api/inspect", json.dumps(question).encode())
    return status, json.loads(body)


def test_the_answer_is_what_inspect_finds(address):
    status, header = asked(address, text=TEXT)
    assert status == 200
    bundle = make_bundle(inspect(Translator.load("de-en", "cpu"), TEXT))
    expected = json.loads(json.dumps(bundle.header))
    scores = {"score", "log_probability", "steps", "heads"}
    assert {key: header[key] for key in expected.keys() - scores} == {
        key: expected[key] for key in expected.keys() - scores
    }
    assert header["score"] == pytest.approx(expected["score"], abs=1e-5)
    assert header["live"] is True
    for name in ("cross/2", "encoder/0/q"):
        _, _, content = ask(f"{address}/api/planes/{header['number']}/{name}")
        stored = np.frombuffer(content, bundle.planes[name].dtype).reshape(bundle.planes[name].shape)
        assert np.abs(stored.astype("float64") - bundle.planes[name]).max() <= 1e-3


def test_the_page_says_that_its_model_can_be_told_a_beam(address):
    assert b'data-tells="beam"' in ask(address)[2]


def test_prefixes_targets_and_heads_that_are_off(address):
    assert asked(address, text=TEXT, prefix="A small dog is")[1]["translation"].startswith("A small dog is ")
    assert asked(address, text=TEXT, target="No dog.")[1]["translation"] == "No dog."
    cross = [{"kind": "cross", "layer": layer, "head": head} for layer in range(4) for head in range(4)]
    assert "dog" not in asked(address, text=TEXT, off=cross)[1]["translation"]
    status, told = asked(address, text=TEXT, off=[{"kind": "cross", "layer": 9, "head": 0}])
    assert (status, told["error"]) == (400, "a head to switch off must exist in the model, got cross 9.0")


def test_an_answer_is_held_against_another_one(address):
    """Its output without these heads: what forcing it gives. It stays as long as questions are held against it."""
    whole = asked(address, text=TEXT)[1]
    assert whole["against"] is None
    for head in range(10):
        off = [{"kind": "cross", "layer": 3 - head // 4, "head": head % 4}, {"kind": "encoder", "layer": 0, "head": 0}]
        held = asked(address, text=TEXT, off=off, against=whole["number"])[1]["against"]
        forced = asked(address, text=TEXT, target=whole["translation"], off=off)[1]
        assert held["number"] == whole["number"]
        assert held["log_probability"] == pytest.approx(forced["log_probability"], abs=1e-4)
    status, told = asked(address, text=TEXT, against=999_999)
    assert (status, told["error"]) == (404, "answer 999999 is no longer kept: ask again")


def test_heads_are_ranked(address):
    number = asked(address, text=TEXT)[1]["number"]
    status, _, body = ask(f"{address}/api/importance/{number}", b"{}")
    changes = [head["change"] for head in json.loads(body)]
    assert status == 200
    assert len(changes) == 56
    assert changes == sorted(changes)


@pytest.mark.parametrize("path", ["", "inspector.js", "inspector.css"])
def test_every_page_is_sealed(address, path):
    status, headers, body = ask(f"{address}/{path}")
    assert status == 200
    assert body
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["access-control-allow-origin"] is None
    assert headers["server"] is None


BODY = json.dumps({"text": TEXT}).encode()


@pytest.mark.parametrize(
    ("headers", "body", "status", "said"),
    [
        ({"Host": "evil.example"}, BODY, 403, "the host must be one of"),
        ({"Host": "[::1"}, BODY, 403, "the host must be one of"),
        ({"Origin": "http://evil.example"}, BODY, 403, "other pages"),
        ({"Origin": "null"}, BODY, 403, "other pages"),
        ({"Origin": "http://[::1"}, BODY, 403, "other pages"),
        ({"Origin": "http://localhost:99999999"}, BODY, 403, "other pages"),
        ({"Host": "evil@localhost"}, BODY, 403, "the host"),
        ({"Host": "localhost:99999999"}, BODY, 403, "the host"),
        ({"Content-Type": "text/plain"}, BODY, 403, "application/json"),
        ({}, b" " * 70_000, 413, "at most 65,536 bytes"),
        ({}, b"{", 400, "JSON"),
        ({}, b"[" * 50_000, 400, ""),
        ({}, b'{"text": 3}', 400, "text: "),
        ({}, b'{"text": "a", "beam": 1e3}', 400, "beam: "),
        ({}, b'{"text": "a", "other": 1}', 400, "other: "),
        ({}, b'{"text": "a", "iterations": 3}', 400, "iterations is for models that write all tokens at once, got 3"),
        ({}, b'{"text": "a", "length": "9"}', 400, "length is for models that write all tokens at once, got 9"),
        ({}, b'{"text": " "}', 400, "needs a text to read"),
        ({}, json.dumps({"text": "\ud800"}).encode(), 400, ""),
    ],
)
def test_what_is_not_answered(address, headers, body, status, said):
    answer = ask(f"{address}/api/inspect", body, headers)
    assert answer[0] == status, answer[2]
    assert said in json.loads(answer[2])["error"]
    assert b"/" + b"src/" not in answer[2]


@pytest.mark.parametrize(
    "path", ["api/planes/999999/cross/0", "api/planes/x/cross/0", "nothing", "../etc/passwd", "docs", "openapi.json"]
)
def test_what_is_not_there(address, path):
    assert ask(f"{address}/{path}")[0] in (400, 404)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["text", "target", "prefix", "off", "part", "beam", "against", "other"])


@settings(max_examples=200)
@given(question=st.dictionaries(NAMES, VALUES, max_size=5) | VALUES)
def test_no_question_breaks_it(address, question):
    status, _, body = ask(f"{address}/api/inspect", json.dumps(question).encode())
    assert status < 500, body
    assert status == 200 or json.loads(body)["error"]


def test_a_port_that_is_taken_is_one_sentence(address):
    port = address.rpartition(":")[2]
    process = start("--port", port)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert f"cannot listen on port {port} of 127.0.0.1: Address already in use\n\nhint: --port 0 picks" in said
