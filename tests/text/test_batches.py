"""Batches: every pair once an epoch, within the budget, and a function of seed and step alone."""

import subprocess
import sys
from itertools import chain, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyheads.text.batches import BatchPlan, cut

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80)


def plan_of(lengths, tokens, seed=1):
    sources, targets = np.array(lengths, np.int32).T
    return BatchPlan(sources, targets, tokens, seed)


def epoch_of(plan, epoch):
    return [plan.rows(epoch * plan.batches + place).tolist() for place in range(plan.batches)]


@given(LENGTHS, st.integers(1, 300), st.integers(0, 2**32 - 1), st.integers(0, 1000))
def test_every_pair_once_an_epoch_and_no_batch_over_the_budget(lengths, tokens, seed, epoch):
    batches = epoch_of(plan_of(lengths, tokens, seed), epoch)
    assert sorted(chain(*batches)) == list(range(len(lengths)))
    for rows in batches:
        longest = max(max(lengths[row]) for row in rows)
        assert len(rows) * longest <= tokens or len(rows) == 1


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80).map(sorted), st.integers(1, 300))
def test_no_batch_ends_where_one_more_sentence_would_fit(lengths, tokens):
    cuts = cut(np.array(lengths, np.int32), tokens).tolist()
    assert (cuts[0], cuts[-1]) == (0, len(lengths))
    for start, end in pairwise(cuts[:-1]):
        assert (end + 1 - start) * lengths[end] > tokens


def test_large_budgets_do_not_overflow():
    assert cut(np.full(100_000, 65_536, np.int32), 10**9).tolist() == [*range(0, 100_000, 15_258), 100_000]


LIKE_TEXT = [(n % 7 + 1, n % 5 + 1) for n in range(200)]


def test_an_epoch_is_drawn_from_seed_and_epoch():
    plan = plan_of(LIKE_TEXT, 30)
    assert epoch_of(plan, 3) == epoch_of(plan_of(LIKE_TEXT, 30), 3)
    assert epoch_of(plan, 3) != epoch_of(plan, 4)
    assert epoch_of(plan, 3) != epoch_of(plan_of(LIKE_TEXT, 30, seed=2), 3)
    # Other batches, not the same in another order:
    assert set(map(frozenset, epoch_of(plan, 3))) != set(map(frozenset, epoch_of(plan, 4)))


def test_steps_can_be_asked_for_in_any_order():
    plan = plan_of(LIKE_TEXT, 30)
    steps = [5, 2 * plan.batches, 5, plan.batches - 1, 10**12, 0]
    assert [plan.rows(step).tolist() for step in steps] == [
        plan_of(LIKE_TEXT, 30).rows(step).tolist() for step in steps
    ]


def test_another_process_draws_the_same():
    code = (
        "import numpy as np; from manyheads.text.batches import BatchPlan;"
        "lengths = np.array([(n % 7 + 1, n % 5 + 1) for n in range(200)]).T;"
        "print(BatchPlan(*lengths, 30, 1).rows(77).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(plan_of(LIKE_TEXT, 30).rows(77).tolist())


MIXTURES = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=30), st.floats(0.02, 3.5)),
    min_size=1, max_size=4,
)  # fmt: skip


def mixed(mixture, tokens, seed=1):
    sources, targets = np.array([pair for lengths, _ in mixture for pair in lengths], np.int32).T
    return BatchPlan(sources, targets, tokens, seed, [(len(lengths), weight) for lengths, weight in mixture])


@given(MIXTURES, st.integers(1, 200), st.integers(0, 9))
def test_a_weight_is_how_often_a_pair_is_met(mixture, tokens, epoch):
    plan = mixed(mixture, tokens)
    batches = epoch_of(plan, epoch)
    met = np.bincount(list(chain(*batches)), minlength=sum(len(lengths) for lengths, _ in mixture))
    start = 0
    for lengths, weight in mixture:
        own = met[start : start + len(lengths)]
        start += len(lengths)
        assert set(own) <= {int(weight), int(weight) + 1}
        beyond = weight - int(weight)
        assert own.sum() == int(weight) * len(lengths) + (max(1, round(beyond * len(lengths))) if beyond else 0)
    pairs = [pair for lengths, _ in mixture for pair in lengths]
    for rows in batches:
        assert len(rows) * max(max(pairs[row]) for row in rows) <= tokens or len(rows) == 1


def test_a_light_corpus_gives_other_pairs_in_every_epoch_and_all_in_turn():
    plan = mixed([([(n % 9 + 1, 5) for n in range(60)], 0.25), ([(4, 4)] * 7, 2.0)], 40)
    light = [{row for row in chain(*epoch_of(plan, epoch)) if row < 60} for epoch in range(8)]
    assert {len(rows) for rows in light} == {15}
    for first in (0, 1, 4):
        assert set.union(*light[first : first + 4]) == set(range(60))


def test_pairs_of_all_corpora_are_in_a_batch():
    """Batches that were each of one corpus would be no mixture."""
    mixture = [([(n % 25 + 5, n % 25 + 5) for n in range(2_000)], weight) for weight in (1.0, 2.0, 0.5)]
    alone = [len({row // 2_000 for row in rows}) < 3 for rows in epoch_of(mixed(mixture, 1_000), 0) if len(rows) > 20]
    assert len(alone) > 50
    assert sum(alone) < 0.1 * len(alone)
