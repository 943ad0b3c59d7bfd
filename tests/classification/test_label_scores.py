"""Scores of labels, against scikit-learn and against counting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.classification.scores import score_labels

NAMES = ["a", "b", "c", "never"]
labelled = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30)
told_or_not = st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 2)), min_size=1, max_size=30)


@given(told_or_not)
def test_scores_are_what_counting_gives(pairs):
    truth, found = zip(*pairs, strict=True)
    scores = score_labels(truth, found, NAMES)
    assert scores.accuracy == pytest.approx(100 * sum(t == f for t, f in pairs) / len(pairs))
    seen = sorted({*truth, *found} - {None})
    f1 = []
    for n in seen:
        right = sum(t == f == n for t, f in pairs)
        precision = right / found.count(n) if found.count(n) else 0
        recall = right / truth.count(n) if truth.count(n) else 0
        f1.append(2 * precision * recall / (precision + recall) if right else 0)
        one = scores.classes[NAMES[n]]
        assert (one.count, one.precision, one.recall) == (truth.count(n), pytest.approx(100 * precision), pytest.approx(100 * recall))  # fmt: skip
        assert one.f1 == pytest.approx(100 * f1[-1])
    assert list(scores.classes) == [NAMES[n] for n in seen]
    assert scores.macro_f1 == pytest.approx(100 * sum(f1) / len(f1))


@given(labelled)
def test_macro_f1_is_that_of_scikit_learn(pairs):
    metrics = pytest.importorskip("sklearn.metrics")
    truth, found = zip(*pairs, strict=True)
    expected = metrics.f1_score(truth, found, average="macro", zero_division=0)
    assert score_labels(truth, found, NAMES).macro_f1 == pytest.approx(100 * expected)


def test_who_always_names_the_frequent_class_is_accurate_but_has_a_low_f1():
    scores = score_labels([0] * 98 + [1, 1], [0] * 100, NAMES)
    assert scores.accuracy == 98
    assert scores.macro_f1 == pytest.approx((100 * 2 * 98 / 198 + 0) / 2)
