"""Words, spellings and the readers of phrases, against the plain definition of each."""

import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.decoding.phrases import FOUND, Reader
from manyheads.decoding.spelling import START, spelling_of
from manyheads.decoding.words import appears, word_characters
from manyheads.text.bytepairs import BytePairs
from manyheads.text.listed import Characters, Symbols
from manyheads.text.tokenizer import FIRST

MERGES = [("Ġ", "a"), ("a", "b"), ("Ġa", "b"), ("ab", "a"), ("-", "a"), ("b", "Ġ"), ("Ã", "©")]
TOKENIZERS = [BytePairs(MERGES), Characters("ab é-"), Symbols(["a", "b", "ab", "é", "a-b"])]
kinds = pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda t: t.kind)
phrases = st.text("abé -", min_size=1, max_size=5).filter(lambda p: p == p.strip())


@cache
def likely_ids(tokenizer):
    """Pieces that meet the phrases of these tests, and bytes that are no character."""
    spelt = [
        i for i in range(FIRST, tokenizer.size) if set(spelling_of(tokenizer).added[START][i]) <= set(b"ab -\xc3\xa9")
    ]
    odd = [i for i in range(FIRST, tokenizer.size) if spelling_of(tokenizer).added[-1][i][-1:] in b"\xff\xe2"]
    return spelt + odd[:2]


def ids_of(tokenizer):
    return st.lists(st.sampled_from(likely_ids(tokenizer)), max_size=12)


@kinds
@given(data=st.data())
def test_pieces_add_up_to_what_the_tokenizer_decodes(tokenizer, data):
    ids = data.draw(st.one_of(ids_of(tokenizer), st.lists(st.integers(FIRST, tokenizer.size - 1), max_size=9)))
    written, _ = spelling_of(tokenizer).write(ids)
    assert written.decode("utf-8", errors="replace") == tokenizer.decode(ids)


@given(st.text("ab_é -.", max_size=12), phrases)
def test_whole_words_are_those_of_regular_expressions(text, phrase):
    left = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    right = r"(?!\w)" if re.search(r"\w\Z", phrase) else ""
    expected = re.search(left + re.escape(phrase) + right, text) is not None
    assert appears(phrase, text, word_characters(TOKENIZERS[0])) == expected


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("cat", "category", False), ("cat", "the cat's", True), ("cat", "Cat", False), ("猫", "黒猫だ", True),
        ("cafe", "cafe\u0301", False), ("U.S.", "the U.S.", True), ("C++", "C++17", True), ("a", "", False),
    ],
)  # fmt: skip
def test_words_of_all_sorts(phrase, text, expected):
    assert appears(phrase, text, word_characters(TOKENIZERS[0])) == expected


def test_where_pieces_are_symbols_words_are_symbols():
    is_word = word_characters(TOKENIZERS[2])
    assert not appears("a", "a- b", is_word)
    assert appears("a- b", "b a- b", is_word)


@kinds
@settings(max_examples=40)
@given(data=st.data(), phrase=phrases)
def test_a_reader_finds_its_phrase_whatever_pieces_spell_it(tokenizer, data, phrase):
    reader = Reader(phrase, spelling_of(tokenizer), word_characters(tokenizer))
    ids, state, context = data.draw(ids_of(tokenizer)), reader.beginning, START
    for n, i in enumerate(ids):
        found = appears(phrase, tokenizer.decode(ids[:n]), reader.is_word)
        assert found == (state == FOUND or reader.hangs[state]), ids[:n]
        after = reader.read(context, state, i)
        assert after == reader.after(context, state)[i]
        assert not (state == FOUND and after != FOUND)
        state, context = after, int(reader.spelling.after[context][i])
    assert appears(phrase, tokenizer.decode(ids), reader.is_word) == (state == FOUND or reader.hangs[state])


@kinds
@settings(max_examples=40)
@given(data=st.data(), phrase=phrases)
def test_the_cost_of_a_phrase_is_paid_piece_by_piece(tokenizer, data, phrase):
    """From anywhere some piece brings it one nearer, and where the cost is 0 it is there."""
    reader = Reader(phrase, spelling_of(tokenizer), word_characters(tokenizer))
    ids = data.draw(ids_of(tokenizer))
    while True:
        _, context = reader.spelling.write(ids)
        state = reader.beginning
        for n, i in enumerate(ids):
            state = reader.read(reader.spelling.write(ids[:n])[1], state, i)
        cost = reader.cost(context, state)
        assert cost <= reader.from_anywhere
        assert (cost == 0) == appears(phrase, tokenizer.decode(ids), reader.is_word)
        if cost == 0:
            break
        after = reader.costs_after(context, state)
        assert after[FIRST:].min() >= 0
        ids = [*ids, FIRST + int(np.argmax(after[FIRST:] == cost - 1))]
        assert after[ids[-1]] == cost - 1


def test_the_shortest_way_is_taken():
    """ " ab" is one piece; after a letter, characters need a space first."""
    pairs, characters = (Reader("ab", spelling_of(t), word_characters(t)) for t in TOKENIZERS[:2])
    assert (pairs.cost(START, pairs.beginning), pairs.from_anywhere) == (1, 1)
    assert (characters.cost(START, characters.beginning), characters.from_anywhere) == (2, 3)
