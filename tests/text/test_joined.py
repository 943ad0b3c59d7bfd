"""Rows as an encoder reads them: framed, two texts apart, and cut fairly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads import InputError, OptionError
from manyheads.text.joined import Frame, join_texts
from manyheads.text.listed import Characters
from manyheads.text.tokenizer import BEGIN, END

FRAMES = [([1], [2]), ([101], [102]), ([7, 8], [2, 2])]
texts = st.lists(st.integers(3, 99), max_size=12)


def tokenizer():
    return Characters.train(["abcdefgh"], 300)


@given(st.sampled_from(FRAMES), texts, texts, st.integers(1, 30))
def test_two_texts_are_cut_so_that_the_longer_gives_way(ends, first, second, most):
    """Against taking away the last piece of the longer one, of two equals of the second, until both fit."""
    frame = Frame(*ends, most)
    joined = [*first, *frame.end, *second]
    found = frame.cut(joined)
    a, b = list(first), list(second)
    while len(a) + len(frame.end) + len(b) > most and (a or b):
        (a if len(a) > len(b) else b).pop()
    if most - len(frame.end) >= 2:
        assert list(found) == [*a, *frame.end, *b]
    assert len(found) <= most


@given(st.sampled_from(FRAMES), texts, texts)
def test_kinds_tell_the_texts_apart_wherever_they_end(ends, first, second):
    frame = Frame(*ends, 100)
    head, tail = len(frame.begin), len(frame.end)
    assert frame.kinds(frame.around(first)) == [0] * (head + len(first) + tail)
    two = frame.kinds(frame.around([*first, *frame.end, *second]))
    assert two == [0] * (head + len(first) + tail) + [1] * (len(second) + tail)


def test_a_line_is_one_text_or_two():
    pieces = tokenizer()
    a, b = pieces.encode(["abc", "de"])
    assert join_texts(pieces, ["abc", "abc\tde", "\t"]) == [a, [*a, END, *b], [END]]
    assert Frame.of(pieces, 9).around(a) == [BEGIN, *a, END]
    with pytest.raises(InputError, match=r"a text, or two with a tab between them, got 3 texts: 'a\\tb\\tc'"):
        join_texts(pieces, ["a\tb\tc"])
    with pytest.raises(OptionError, match="leave room between begin and end, got 2"):
        Frame.of(pieces, 2)
