"""Edit distance against its definition, and rates by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.evaluation.rates import edits, error_rate, exact_match, group_references

words = st.text(alphabet="abc", max_size=6)


def by_definition(a, b):
    """All ways there are."""
    if not a or not b:
        return len(a) + len(b)
    return min(by_definition(a[1:], b) + 1, by_definition(a, b[1:]) + 1, by_definition(a[1:], b[1:]) + (a[0] != b[0]))


@given(words, words)
def test_edits_are_the_fewest_there_are(a, b):
    assert edits(a, b) == by_definition(a, b)


@given(words, words, words)
def test_edits_are_a_distance(a, b, c):
    assert (edits(a, b) == 0) == (a == b)
    assert edits(a, b) == edits(b, a)
    assert edits(a, c) <= edits(a, b) + edits(b, c)


@pytest.mark.parametrize(("a", "b", "count"), [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "ca", 3)])
def test_edits_by_hand(a, b, count):
    assert edits(a, b) == edits(list(a), tuple(b)) == count


def test_an_output_is_right_if_it_is_one_of_its_references():
    assert exact_match(["a", "b", "c", "d"], [["a"], ["x", "b"], ["C"], []]) == 50
    with pytest.raises(ValueError, match="shorter"):
        exact_match(["a", "b"], [["a"]])


def test_error_rate_is_edits_over_symbols_of_the_nearest_reference():
    assert error_rate(["k a t"], [["k a t"]]) == 0
    assert error_rate(["k a t", "d o"], [["k e t"], ["d o g"]]) == pytest.approx(100 * 2 / 6)
    assert error_rate(["k a t"], [["h u n d", "k a t s", "k"]]) == 25, "1 of 4, not 2 of 1"
    assert error_rate(["a b"], [["a c", "a b c d e f"]]) == 50, "1 of 2 is less than 4 of 6"
    assert error_rate(["", "a"], [["a b"], ["a"]]) == pytest.approx(200 / 3)
    assert error_rate(["a b"], [["c"]]) == 200, "more is wrong than there is"
    assert error_rate(["aa b"], [["a b"]]) == 50, "by symbol, not by letter"


def test_references_are_grouped_in_order():
    pairs = [("b", "1"), ("a", "2"), ("b", "3"), ("a", "2"), ("c", "0")]
    assert list(group_references(pairs).items()) == [("b", ["1", "3"]), ("a", ["2", "2"]), ("c", ["0"])]
    assert group_references([]) == {}
