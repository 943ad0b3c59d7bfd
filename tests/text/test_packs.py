"""Parts: every pair once an epoch, in a room of one size, nearly full, and a function of seed and step alone."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.errors import InputError
from manyheads.text.packs import PackPlan, fill, halved

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80)


def plan_of(lengths, tokens, seed=1, parts=1, corpora=None):
    sources, targets = np.array(lengths, np.int32).T
    return PackPlan(sources, targets, tokens, seed, corpora, parts)


def epoch_of(plan, epoch):
    """Parts, as lists of pairs."""
    steps = (plan.rows(epoch * plan.batches + place) for place in range(plan.batches))
    return [pack.tolist() for step in steps for pack in step]


@settings(max_examples=200)
@given(LENGTHS, st.integers(1, 400), st.integers(0, 2**32 - 1), st.integers(0, 500), st.integers(1, 3))
def test_every_pair_once_an_epoch_and_no_pack_over_the_room(lengths, tokens, seed, epoch, parts):
    plan = plan_of(lengths, tokens, seed, parts)
    packs = epoch_of(plan, epoch)
    assert sorted(chain(*packs)) == list(range(len(lengths)))
    assert len(packs) == plan.parts * plan.batches
    for rows in packs:
        assert sum(lengths[row][0] for row in rows) <= plan.room.source
        assert sum(lengths[row][1] for row in rows) <= plan.room.target
        assert len(rows) <= plan.room.pairs
    assert all(any(step) for step in (packs[n : n + plan.parts] for n in range(0, len(packs), plan.parts)))


def test_packs_of_text_are_nearly_full():
    """Lengths like those of talks, a few thousand tokens a pack."""
    random = np.random.default_rng(0)
    sources = np.clip(random.lognormal(3.1, 0.55, 20_000), 3, 120).astype(np.int32)
    targets = (sources * random.uniform(0.85, 1.15, 20_000)).astype(np.int32) + 1
    for tokens in (4_096, 12_500):
        plan = PackPlan(sources, targets, tokens, 1)
        filled = [
            (sources[rows].sum() + targets[rows].sum()) for step in range(plan.batches) for rows in plan.rows(step)
        ]
        assert sum(filled) / (plan.batches * sum(plan.room[:2])) >= 0.98


LIKE_TEXT = [(n % 7 + 1, n % 5 + 1) for n in range(300)]


def test_an_epoch_is_drawn_from_seed_and_epoch():
    plan = plan_of(LIKE_TEXT, 100)
    assert epoch_of(plan, 3) == epoch_of(plan_of(LIKE_TEXT, 100), 3)
    assert epoch_of(plan, 3) != epoch_of(plan, 4)
    assert epoch_of(plan, 3) != epoch_of(plan_of(LIKE_TEXT, 100, seed=2), 3)


def test_steps_can_be_asked_for_in_any_order():
    plan = plan_of(LIKE_TEXT, 100)
    for step in (5, 2 * plan.batches, 5, plan.batches - 1, 10**12, 0):
        assert plan.rows(step)[0].tolist() == plan_of(LIKE_TEXT, 100).rows(step)[0].tolist()


def test_if_no_order_fits_that_is_said(monkeypatch):
    plan = plan_of(LIKE_TEXT, 100)
    monkeypatch.setattr(plan, "packs", 1)
    with pytest.raises(InputError, match="sentences could not be packed into 1 batches"):
        plan.epoch(7)


@pytest.mark.parametrize("seed", range(10))
def test_long_sentences_in_small_packs_never_run_out_of_orders(seed):
    """Four to a pack: how many packs an order takes differs from draw to draw."""
    lengths = np.random.default_rng(seed).integers(100, 256, (1_000, 2)).astype(np.int32)
    plan = PackPlan(*lengths.T, 1_024, seed)
    orders = {tuple(plan.epoch(epoch)[0][:20].tolist()) for epoch in range(10)}
    assert len(orders) == 10


def test_packs_are_full_whatever_the_weights():
    """Short sentences fifty times, long ones once: room is made for what is met, not for what there is."""
    lengths = [(100, 100)] * 200 + [(3, 3)] * 200
    for weight in (1.0, 10.0, 50.0):
        plan = plan_of(lengths, 8_192, corpora=[(200, 1.0), (200, weight)])
        filled = [sum(lengths[row][0] for row in rows) for rows in epoch_of(plan, 1)]
        assert sum(filled) / (len(filled) * plan.room.source) > 0.95


def test_more_parts_than_sentences_fit_are_fewer_parts():
    plan = plan_of(LIKE_TEXT, 100, parts=1_000)
    assert plan.parts == 100 // 7
    assert sum(sum(LIKE_TEXT[row][0] for row in rows) for rows in plan.rows(0)) <= plan.parts * plan.room.source


@pytest.mark.parametrize("weight", [2.0, 0.5])
def test_weights_count_as_in_padded_batches(weight):
    plan = plan_of(LIKE_TEXT, 100, corpora=[(100, weight), (200, 1.0)])
    met = np.bincount(np.concatenate([np.array(rows, int) for rows in epoch_of(plan, 2)]), minlength=300)
    assert met[:100].sum() == 100 * weight
    assert (met[100:] == 1).all()


def test_cuts_are_as_late_as_the_room_allows():
    plan = plan_of(LIKE_TEXT, 100)
    sources, targets = (np.array(side) for side in zip(*LIKE_TEXT, strict=True))
    cuts = fill(sources, targets, plan.room).tolist()
    for start, end in pairwise(cuts[:-1]):
        room = [side[start : end + 1].sum() for side in (sources, targets)]
        assert room[0] > plan.room.source or room[1] > plan.room.target or end + 1 - start > plan.room.pairs
    assert halved(np.array([0, 10, 12]), 4).tolist() == [0, 2, 5, 10, 12]


@settings(max_examples=100)
@given(
    LENGTHS, st.integers(60, 400), st.integers(0, 99), st.floats(0.05, 2.5), st.floats(0.05, 2.5), st.integers(0, 79)
)
def test_weights_that_are_not_whole_fit_in_every_epoch(lengths, tokens, seed, one, other, cut):
    """Other pairs have a turn in another epoch, and may be longer: that must be known when the room is made."""
    first = min(cut, len(lengths))
    corpora = [(first, one), (len(lengths) - first, other)]
    plan = plan_of(lengths, tokens, seed, corpora=corpora)
    for epoch in range(12):
        packs = epoch_of(plan, epoch)
        assert len(packs) == plan.batches
        for rows in packs:
            assert sum(lengths[row][0] for row in rows) <= plan.room.source
            assert sum(lengths[row][1] for row in rows) <= plan.room.target
