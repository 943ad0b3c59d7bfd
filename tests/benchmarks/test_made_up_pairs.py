"""The pairs that the systems are measured with: how long they are, what they cost, and in which batches they come."""

from itertools import combinations

import numpy as np
import pytest
from benchmarks.corpus import (
    PEAK,
    Lengths,
    best_bounds,
    draw_lengths,
    draw_words,
    evenly,
    fixed_batches,
    multiply_adds,
    pad_batch,
    share_of_peak,
    sorted_batches,
)  # fmt: skip
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import fast
from manyheads.models.config import TransformerConfig
from manyheads.models.cost import transformer_cost

BASE = TransformerConfig(norm="pre", bias=True)


def test_lengths_are_those_of_talks():
    pairs = draw_lengths(400_000, seed=1)
    assert pairs.targets.sum() == pytest.approx(400_000, rel=0.02)
    assert pairs.sources.min() >= 3
    assert pairs.sources.max() <= 120
    logs = np.log(pairs.sources)
    assert logs.mean() == pytest.approx(3.1, abs=0.02)
    assert logs.std() == pytest.approx(0.55, abs=0.02)
    ratio = (pairs.targets - 1) / pairs.sources
    assert np.all(np.abs(pairs.targets - 1 - pairs.sources) <= 0.15 * pairs.sources + 0.5)
    assert ratio.mean() == pytest.approx(1, abs=0.01)


def test_lengths_are_drawn_alike_in_every_process():
    one, other = draw_lengths(5_000, seed=3), draw_lengths(5_000, seed=3)
    assert np.array_equal(one.sources, other.sources)
    assert np.array_equal(one.targets, other.targets)
    assert not np.array_equal(draw_lengths(5_000, seed=4).sources, one.sources)


def test_base_at_its_peak_learns_from_2_67_million_tokens_a_second():
    pairs = draw_lengths(400_000, seed=1)
    seconds = pairs.targets.sum() / 2.67e6
    assert share_of_peak(multiply_adds(BASE, 10_000, pairs), seconds) == pytest.approx(1, rel=0.02)


def test_share_of_peak_counts_two_operations_and_three_passes():
    assert share_of_peak(PEAK / 6, seconds=1) == pytest.approx(1)
    assert share_of_peak(PEAK / 6, seconds=4) == pytest.approx(0.25)


def test_multiply_adds_are_those_of_each_pair_alone():
    pairs = Lengths(np.array([5, 7, 5]), np.array([6, 7, 6]))
    alone = [
        transformer_cost(BASE, 100, source_length=s, target_length=t).multiply_adds.total()
        for s, t in ((5, 6), (7, 7), (5, 6))
    ]
    assert multiply_adds(BASE, 100, pairs) == sum(alone)


def test_sorted_batches_hold_every_pair_once_within_the_budget_and_hardly_any_padding():
    pairs = draw_lengths(60_000, seed=2)
    batches = sorted_batches(pairs, 1_000)
    assert sorted(np.concatenate(batches)) == list(range(len(pairs)))
    room = [len(rows) * pairs.targets[rows].max() for rows in batches]
    assert max(room) <= 1_000
    assert pairs.targets.sum() / sum(room) > 0.97


def test_some_batches_stand_for_all():
    batches = [np.array([n]) for n in range(100)]
    assert [int(rows[0]) for rows in evenly(batches, 4)] == [12, 37, 62, 87]
    assert evenly(batches[:3], 4) == batches[:3]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 4))
def test_bounds_waste_least(lengths, shapes):
    longest = np.array(lengths)
    found = best_bounds(longest, shapes)

    def room(bounds):
        return sum(next(bound for bound in bounds if bound >= length) for length in lengths)

    last = -(-max(lengths) // 8) * 8
    others = [(*rest, last) for n in range(shapes) for rest in combinations(range(8, last, 8), n)]
    assert found[-1] == last
    assert len(found) <= shapes
    assert room(found) == min(map(room, others))


def test_fixed_batches_have_few_shapes_and_as_many_real_tokens():
    pairs = draw_lengths(200_000, seed=2)
    batches = fixed_batches(pairs, 2_000, shapes=3, most=20)
    assert len({(len(rows), to) for rows, to in batches}) == 3
    assert len(np.unique(np.concatenate([rows for rows, _ in batches]))) == sum(len(rows) for rows, _ in batches)
    for rows, to in batches:
        assert max(pairs.sources[rows].max(), pairs.targets[rows].max()) <= to
        assert pairs.targets[rows].sum() == pytest.approx(2_000, rel=0.1)


def test_padded_and_packed_batches_hold_the_same_tokens():
    pairs = draw_lengths(3_000, seed=5)
    sources, targets = draw_words(pairs.sources, 50, 6), draw_words(pairs.targets, 50, 7)
    rows, packs = fast.packed_batches(sources, targets, 1_000, seed=1, most=1)[0]
    padded, filled = pad_batch(sources, targets, rows), pad_batch(sources, targets, rows, to=144)
    (pack,) = packs.parts
    assert packs.count == padded.count == filled.count == pairs.targets[rows].sum()
    assert filled.source.shape == filled.target.shape == (len(rows), 144)
    for name in ("source", "target", "labels"):
        packed, rectangle, wide = (getattr(batch, name) for batch in (pack, padded, filled))
        real = rectangle[rectangle != 0]
        assert real.equal(packed[packed != 0])
        assert real.equal(wide[wide != 0])
        assert len(real) == (pairs.sources if name == "source" else pairs.targets)[rows].sum()
