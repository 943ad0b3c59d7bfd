"""Which word, or character, a piece is part of: held against the text that the pieces spell."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manyheads.text.bytepairs import BytePairs
from manyheads.text.listed import Characters, Symbols
from manyheads.text.tokenizer import FIRST
from manyheads.text.units import letter_words, move_units

PAIRS = BytePairs([("Ġ", "a"), ("b", "c"), ("Ġa", "bc"), ("Ġ", "Ġ")])
LETTERS = Characters("abc é")
SIGNS = Symbols(["a", "bc", "AH0", "é"])
texts = st.text(st.sampled_from("abcé 🙂\t\u00a0"), max_size=12)


def ids_of(tokenizer):
    return st.lists(st.integers(0, tokenizer.size - 1), max_size=12)


def words(text):
    return [word for word in text.split(" ") if word]


def spelt(tokenizer, ids):
    """The text of each unit, from its pieces alone."""
    units = tokenizer.units(ids)
    found = [[i for i, unit in zip(ids, units, strict=True) if unit == n] for n in range(count(units))]
    return [tokenizer.decode(some).strip(" ") for some in found]


def count(units):
    return 1 + max((unit for unit in units if unit is not None), default=-1)


@pytest.mark.parametrize("tokenizer", [PAIRS, SIGNS], ids=lambda t: t.kind)
@given(text=texts)
def test_pieces_of_a_word_spell_the_word(tokenizer, text):
    (ids,) = tokenizer.encode([text])
    assert spelt(tokenizer, ids) == words(text)


@given(texts)
def test_pieces_of_a_character_spell_the_character(text):
    (ids,) = LETTERS.encode([text])
    units = LETTERS.units(ids)
    assert [LETTERS.decode([i for i, u in zip(ids, units, strict=True) if u == n]) for n in range(len(text))] == list(
        text
    )


@given(ids_of(PAIRS))
def test_whatever_pieces_are_written_their_words_are_those_of_the_text(ids):
    assert count(PAIRS.units(ids)) == len(words(PAIRS.decode(ids)))


@given(ids_of(SIGNS))
def test_whatever_symbols_are_written_their_words_are_those_of_the_text(ids):
    assert count(SIGNS.units(ids)) == len(words(SIGNS.decode(ids)))


@given(ids_of(LETTERS))
@example(LETTERS.spell("\ud7ff")[:1] + LETTERS.spell("\u0820")[1:2])  # half of a surrogate reads as two characters
def test_whatever_characters_are_written_also_half_of_one(ids):
    assert count(LETTERS.units(ids)) == len(LETTERS.decode(ids))


@pytest.mark.parametrize("tokenizer", [PAIRS, LETTERS, SIGNS], ids=lambda t: t.kind)
def test_padding_begin_and_end_are_in_no_word(tokenizer):
    assert tokenizer.units(range(FIRST)) == [None] * FIRST


def test_words_stand_between_spaces_and_no_other_blanks():
    assert letter_words(" a  b\tc d") == [None, 0, None, None, 1, 1, 1, None, 2]


@given(st.lists(st.text(st.sampled_from("ab. "), min_size=1, max_size=6), max_size=4), st.sampled_from([" ", "  "]))
def test_words_of_parts_are_found_in_the_whole(parts, between):
    whole = between.join(parts)
    moves = move_units(parts, whole, words=True)
    for part, move in zip(parts, moves, strict=True):
        assert [words(whole)[move[n]] for n in range(len(words(part)))] == words(part)


def test_a_part_that_begins_in_a_word_goes_on_with_it():
    assert move_units(["一。", "二 三"], "一。二 三", words=True) == [{0: 0}, {0: 0, 1: 1}]
    assert move_units(["ab", "c d"], "abc d", words=False) == [{0: 0, 1: 1}, {0: 2, 2: 4}]
    assert move_units(["a. b"], "a.\u00a0b", words=True) == [{0: 0, 1: 0}]
