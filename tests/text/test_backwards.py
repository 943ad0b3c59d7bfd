"""A target that is written from its end: the same pieces and the same text, in the other order of ids."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.untrained import TOKENIZERS
from manyheads.errors import InputError
from manyheads.inspection.sides import read_side
from manyheads.text.backwards import Backwards
from manyheads.text.tokenizer import BEGIN, END, PACKED
from manyheads.text.vocabulary import Vocabulary

KINDS = pytest.mark.parametrize("kind", TOKENIZERS)
TEXTS = st.text(alphabet="abcdé. x", max_size=12)


@KINDS
@given(text=TEXTS)
def test_ids_are_turned_round_and_text_is_not(kind, text):
    forwards, backwards = TOKENIZERS[kind], Backwards(TOKENIZERS[kind])
    (ids,), (turned,), (packed,) = forwards.encode([text]), backwards.encode([text]), backwards.encode_packed([text])
    assert turned == ids[::-1]
    assert np.frombuffer(packed, PACKED).tolist() == turned
    assert backwards.decode(iter(turned)) == forwards.decode(ids)
    assert backwards.pieces(turned) == forwards.pieces(ids)[::-1]
    assert backwards.units(turned) == forwards.units(ids)[::-1]  # words are counted from the beginning of the text
    assert (backwards.kind, backwards.size) == (forwards.kind, forwards.size)


@KINDS
@given(text=TEXTS.filter(str.strip))
def test_each_piece_lies_where_it_lies_when_it_is_written_forwards(kind, text):
    forwards, backwards = TOKENIZERS[kind], Backwards(TOKENIZERS[kind])
    (ids,) = forwards.encode([text])
    one, other = read_side(forwards, ids), read_side(backwards, ids[::-1])
    assert one.text == other.text
    assert [(p.text, p.id, p.start, p.end) for p in one.pieces] == [
        (p.text, p.id, p.start, p.end) for p in reversed(other.pieces)
    ]
    assert one.words == other.words[::-1]


def test_begin_and_end_are_pieces_of_their_own():
    ids = Backwards(TOKENIZERS["symbols"]).encode(["a cab"])[0]
    side = read_side(Backwards(TOKENIZERS["symbols"]), [BEGIN, *ids, END])
    assert [word.text for word in side.words] == ["⟨begin⟩", "cab", "a", "⟨end⟩"]
    assert [word.special for word in side.words] == [True, False, False, True]


@pytest.mark.parametrize("joint", [True, False])
def test_a_file_says_it_and_earlier_versions_refuse_it(joint):
    source, target = TOKENIZERS["bpe"], None if joint else TOKENIZERS["symbols"]
    stored = Vocabulary(source, target, backwards=True).dumps()
    again = Vocabulary.loads(stored, "here")
    assert again.backwards
    assert again.joint == joint
    assert again.dumps() == stored
    assert again.target.encode(["a b"])[0] == (target or source).encode(["a b"])[0][::-1]
    assert again.source.encode(["a b"]) == source.encode(["a b"])
    assert json.loads(stored)["schema"] == 2
    forwards = Vocabulary(source, target)
    assert not Vocabulary.loads(forwards.dumps(), "here").backwards
    assert json.loads(forwards.dumps())["schema"] == 1
    assert forwards.target.as_json() != again.target.as_json()  # so that they are never taken for each other


def test_other_schemas_are_refused():
    stored = json.loads(Vocabulary(TOKENIZERS["bpe"]).dumps()) | {"schema": 3}
    with pytest.raises(InputError, match="its schema is 3, this version reads 1 and 2"):
        Vocabulary.loads(json.dumps(stored), "here")
