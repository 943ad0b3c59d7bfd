"""Which of two models is the better one."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from manyheads.tasks.translate import BY_CHANCE, while_learning

LOSS = st.floats(0, 30)


def scores(chrf, **extra):
    return SimpleNamespace(chrf=chrf, extra=extra)


@given(st.floats(0, BY_CHANCE, exclude_max=True), st.floats(0, BY_CHANCE, exclude_max=True), LOSS, LOSS)
def test_of_beginners_the_one_with_the_lower_loss(one, other, loss, more):
    first, second = while_learning(scores(one), min(loss, more)), while_learning(scores(other), max(loss, more))
    assert first >= second


@given(st.floats(BY_CHANCE, 100), st.floats(BY_CHANCE, 100), LOSS, LOSS)
def test_of_translators_the_one_with_the_higher_chrf(one, other, loss, more):
    assert (while_learning(scores(one), loss) >= while_learning(scores(other), more)) == (one >= other)


@given(st.floats(BY_CHANCE, 100), st.floats(0, BY_CHANCE, exclude_max=True), LOSS, LOSS)
def test_a_translator_is_better_than_a_beginner(one, other, loss, more):
    assert while_learning(scores(one), loss) >= while_learning(scores(other), more)


def test_phones_count_as_they_are():
    assert while_learning(scores(5.0, wer=60.0, per=20.0), 1.0) == -80


def test_what_is_not_finite_stays_so():
    assert while_learning(scores(1.0), float("inf")) == 0
    assert while_learning(scores(1.0), float("nan")) != while_learning(scores(1.0), float("nan"))
