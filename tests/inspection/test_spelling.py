"""From text to ids and back: every byte is some piece's, and what cannot be seen has a name."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.untrained import TOKENIZERS, build
from manyheads.inspection.api import inspect
from manyheads.inspection.spelling import bytes_of, read_spelling
from manyheads.inspection.unseen import find_marks
from manyheads.text.tokenizer import BEGIN, END

TEXTS = st.text(st.sampled_from("abcdefé  .ü🐶\u202e漢\u00a0\t"), max_size=30)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=TEXTS)
def test_the_bytes_of_all_pieces_are_those_of_the_text(kind, text):
    tokenizer = TOKENIZERS[kind]
    ids = [BEGIN, *tokenizer.encode([text])[0], END]
    spelt = bytes_of(tokenizer, ids)
    assert len(spelt) == len(ids)
    assert b"".join(spelt).decode() == tokenizer.decode(ids)
    assert spelt[0] == spelt[-1] == b""


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_each_side_is_told_from_what_was_typed_to_its_bytes(kind):
    found = inspect(build(kind), "ab cab\n\u202ed", "a\u00a0b")
    told = read_spelling(found)
    assert told["source"]["typed"] == "ab cab\n\u202ed"
    assert told["source"]["start"] == 0  # the line end has become a blank, and is one character as well
    assert told["source"]["tokenizer"] == kind
    assert told["source"]["size"] == TOKENIZERS[kind].size
    assert bytes.fromhex("".join(told["source"]["bytes"])).decode() == found.source.text == "ab cab \u202ed"
    assert [(mark["at"], mark["name"]) for mark in told["source"]["typed_marks"]] == [
        (6, "LINE FEED"), (7, "RIGHT-TO-LEFT OVERRIDE"),
    ]  # fmt: skip
    assert told["target"]["typed"] == "a\u00a0b"
    assert told["target"]["marks"] == [{"at": 1, "code": "U+00A0", "name": "NO-BREAK SPACE", "kind": "blank"}]
    assert told["joint"]


def test_what_a_model_has_written_was_typed_by_nobody():
    told = read_spelling(inspect(build(), "ab cab"))
    assert told["target"]["typed"] is None
    assert told["target"]["start"] is None
    assert told["target"]["typed_marks"] == []


def test_a_part_that_is_there_twice_has_no_place():
    found = inspect(build(pieces=8, max_source=4), "ab cab. ab cab. ab cab.", part=2)
    assert found.parts > 1
    assert found.source.text == "ab cab."
    assert read_spelling(found)["source"]["start"] is None


@pytest.mark.parametrize(
    ("letter", "name", "kind"),
    [
        ("\t", "TAB", "control"),
        ("\x07", "CONTROL", "control"),
        ("\u200b", "ZERO WIDTH SPACE", "invisible"),
        ("\u200d", "ZERO WIDTH JOINER", "invisible"),
        ("\u200f", "RIGHT-TO-LEFT MARK", "direction"),
        ("\u2066", "LEFT-TO-RIGHT ISOLATE", "direction"),
        ("\u2028", "LINE SEPARATOR", "line separator"),
        ("\u3000", "IDEOGRAPHIC SPACE", "blank"),
        ("\u3164", "HANGUL FILLER", "invisible"),
        ("\ufe0f", "VARIATION SELECTOR-16", "invisible"),
        ("\ufeff", "ZERO WIDTH NO-BREAK SPACE", "invisible"),
        ("\ue000", "PRIVATE USE", "private use"),
        ("\U000e0041", "TAG LATIN CAPITAL LETTER A", "invisible"),
    ],
)
def test_what_cannot_be_seen_has_a_name(letter, name, kind):
    (mark,) = find_marks(f"a{letter}b")
    assert (mark.at, mark.code, mark.name, mark.kind) == (1, f"U+{ord(letter):04X}", name, kind)


@given(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp", "Mn"]))
def test_letters_that_can_be_seen_are_left_alone(letter):
    fillers = {
        "HANGUL FILLER",
        "HALFWIDTH HANGUL FILLER",
        "HANGUL CHOSEONG FILLER",
        "HANGUL JUNGSEONG FILLER",
        "BRAILLE PATTERN BLANK",
    }
    assert (find_marks(letter) == []) == (unicodedata.name(letter, "") not in fillers)
