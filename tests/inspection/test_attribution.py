"""Attributions against what they claim to be: brute force, finite differences, sums that add up, explicit recomputation."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from inspection.test_trace import CHANGES, SOURCE, TARGET, WORDS, build
from manyheads.errors import OptionError
from manyheads.inspection import vectors, zeroing
from manyheads.inspection.agreement import agreement, ranks
from manyheads.inspection.api import inspect
from manyheads.inspection.attribution import METHODS, attribute
from manyheads.inspection.switches import Head, switched_off
from manyheads.inspection.vectors import Pair, gradient_x_input, integrated_gradients, leave_one_out
from manyheads.inspection.zeroing import value_zeroing

WRITTEN = [7, 30, 12, 12, 5, 2]
NOTHING = WORDS


@pytest.fixture(params=CHANGES.values(), ids=CHANGES.keys())
def model(request):
    torch.manual_seed(1)
    return build(request.param).eval()


def pair_of(model, source=SOURCE, target=TARGET, written=WRITTEN):
    return Pair(model, *(torch.tensor(ids) for ids in (source, target, written)))


def with_nothing(model):
    """A model of the same words, and of one more whose vector is 0."""
    larger = copy.deepcopy(model)
    for name in ("words", "target_words"):
        table = nn.Embedding(WORDS + 1, model.config.width)
        table.weight.data[:WORDS] = getattr(model, name).weight.data
        table.weight.data[NOTHING] = 0
        setattr(larger, name, table)
    return larger


@torch.no_grad()
def log_p(model, source, target):
    found = model(torch.tensor([source]), torch.tensor([target]))[0].log_softmax(-1)
    return found[range(len(WRITTEN)), WRITTEN]


def without(ids, n):
    return [*ids[:n], NOTHING, *ids[n + 1 :]]


def test_leaving_one_out_is_what_a_model_loses_that_reads_nothing_there(model):
    source, target = leave_one_out(pair_of(model))
    larger = with_nothing(model)
    whole = log_p(larger, SOURCE, TARGET)
    for n in range(len(SOURCE)):
        torch.testing.assert_close(
            source[:, n], whole - log_p(larger, without(SOURCE, n), TARGET), atol=1e-4, rtol=0, check_dtype=False
        )
    for n in range(len(TARGET)):
        lost = whole - log_p(larger, SOURCE, without(TARGET, n))
        torch.testing.assert_close(target[:, n], lost, atol=1e-4, rtol=0, check_dtype=False)
        assert (target[:n, n] == 0).all()  # what is yet to be read has no part in it


def test_gradients_are_those_of_finite_differences(model):
    """x · ∂f/∂x is how f changes when a vector is made a little longer."""
    model = model.double()
    pair, small = pair_of(model), 1e-6
    source, target = gradient_x_input(pair)
    for side, found in enumerate((source, target)):
        for n in range(found.shape[1]):
            longer, shorter = ([one.clone() for one in pair.vectors] for _ in range(2))
            longer[side][0, n] *= 1 + small
            shorter[side][0, n] *= 1 - small
            slope = (pair.values(tuple(longer)) - pair.values(tuple(shorter)))[0] / (2 * small)
            torch.testing.assert_close(found[:, n], slope, atol=1e-6, rtol=1e-5)


class Linear(Pair):
    """f = Σ wᵢ·xᵢ over all that is read, in every row; the weights and vectors are drawn."""

    drawn = torch.Generator().manual_seed(3)
    weights = torch.randn(5, 8, generator=drawn)
    vectors = torch.randn(1, 3, 8, generator=drawn), torch.randn(1, 2, 8, generator=drawn)

    def states(self, vectors):
        summed = (torch.cat(vectors, 1) * self.weights).sum((1, 2))
        return summed[:, None, None].expand(-1, len(self.target), 1)

    def scores(self, states, written):
        return states[..., 0]


def test_of_a_linear_function_all_of_them_are_the_same():
    pair = Linear(build({}), torch.tensor([3, 4, 5]), torch.tensor([1, 6]), torch.tensor([6, 2]))
    expected = (torch.cat(Linear.vectors, 1)[0] * Linear.weights).sum(-1).expand(2, -1)
    for found in (leave_one_out(pair), gradient_x_input(pair), integrated_gradients(pair).sides):
        torch.testing.assert_close(found[0], expected[:, :3], atol=1e-5, rtol=0)
        torch.testing.assert_close(found[1], expected[:, 3:].tril(), atol=1e-5, rtol=0)


def test_integrated_gradients_add_up_to_what_all_vectors_change(model):
    found = integrated_gradients(pair_of(model), most=400)
    larger = with_nothing(model)
    nothing = log_p(larger, [NOTHING] * len(SOURCE), [NOTHING] * len(TARGET))
    whole = log_p(larger, SOURCE, TARGET) - nothing
    torch.testing.assert_close(found.whole, whole, atol=1e-4, rtol=0, check_dtype=False)
    missed = (found.sides[0].sum(1) + found.sides[1].sum(1) - whole).abs().max()
    assert missed == pytest.approx(found.gap, abs=1e-4)
    assert missed <= 0.02 * whole.abs().max()


@pytest.mark.slow
def test_a_finer_path_misses_less(translator):
    found = inspect(translator, "Ein Hund schläft.")
    ids = [torch.tensor([piece.id for piece in side.pieces]) for side in (found.source, found.target)]
    pair = Pair(translator.single, ids[0], ids[1][:-1], ids[1][1:])
    coarse, fine = integrated_gradients(pair, most=16), integrated_gradients(pair, most=96)
    assert fine.gap < coarse.gap
    assert fine.gap < 0.06 * fine.whole.abs().max()


def changes_by_hand(block, attention, given, keys):
    """The block is computed anew for every key, with an attention whose values are 0 there."""
    whole, project, found = block(*given), attention.projected, []
    for key in range(keys):

        def projected(*args, key=key):
            q, k, v = project(*args)
            v = v.clone()
            v[:, :, key] = 0
            return q, k, v

        attention.projected = projected
        found.append(1 - F.cosine_similarity(block(*given), whole, dim=-1)[0])
        del attention.projected
    return torch.stack(found, 1).clamp(min=0)


@pytest.mark.parametrize("off", [(), (Head("cross", 0, 1), Head("decoder", 1, 2))])
@torch.no_grad()
def test_zeroed_values_change_what_an_explicit_recomputation_changes(model, off, monkeypatch):
    monkeypatch.setattr(zeroing, "MOST_TOKENS", 20)  # so that keys are taken in several batches
    with switched_off(model, off):
        source, target = value_zeroing(pair_of(model))
        with zeroing.given_to(model.decoder.blocks) as given:
            model(torch.tensor([SOURCE]), torch.tensor([TARGET]))
        expected = {"source": [], "target": []}
        for block in model.decoder.blocks:
            for side, attention, keys in (
                ("source", block.cross, len(SOURCE)),
                ("target", block.attention, len(TARGET)),
            ):
                by_hand = changes_by_hand(block, attention, given[block], keys)
                expected[side].append(by_hand / by_hand.sum(-1, keepdim=True))
    torch.testing.assert_close(source, torch.stack(expected["source"]).mean(0), atol=2e-3, rtol=0)
    torch.testing.assert_close(target, torch.stack(expected["target"]).mean(0), atol=2e-3, rtol=0)
    assert source.sum(-1) == pytest.approx(1, abs=1e-5)
    assert (target.triu(1) == 0).all()


def test_many_pieces_are_taken_in_several_batches(model, monkeypatch):
    pair = pair_of(model)
    at_once = [method(pair) for method in (gradient_x_input, leave_one_out)]
    monkeypatch.setattr(vectors, "MOST_TOKENS", 30)
    for whole, parts in zip(at_once, [method(pair) for method in (gradient_x_input, leave_one_out)], strict=True):
        for one, other in zip(whole, parts, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=0)


# ── agreement ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12))
def test_ranks_are_counted(values):
    expected = [sum(b < a for b in values) + (values.count(a) + 1) / 2 for a in values]
    assert ranks(np.array(values, float)).tolist() == expected


@given(st.permutations(range(7)))
def test_agreement_is_spearmans(order):
    one, other = np.arange(7.0) + 1, np.array(order, float) + 1
    expected = 1 - 6 * ((one - other) ** 2).sum() / (7 * (49 - 1))
    seen = np.ones((2, 7), bool)
    assert agreement(np.stack([one, -one]), np.stack([other, other]), seen) == pytest.approx(expected)


def test_rows_without_an_order_do_not_count():
    values, seen = np.array([[1.0, 2.0, 3.0], [1.0, 5.0, 9.0]]), np.array([[True, False, False], [True, True, True]])
    assert agreement(values, values, seen) == pytest.approx(1)
    assert agreement(np.ones((2, 3)), values, seen) is None


# ── an inspection's own ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", [name for name in METHODS if name != "integrated-gradients"])
def test_each_method_says_how_far_every_head_agrees(found, method):
    told = attribute(found, method)
    rows, columns = len(found.choices), len(found.source.pieces)
    assert told.source.shape == (rows, columns)
    assert told.target.shape == (rows, rows)
    assert (np.triu(told.target, 1) == 0).all()
    own = found.attention["cross"][1][2].double().numpy()
    assert told.agreement["source"][1][3] == agreement(told.source, own, np.ones(own.shape, bool))
    mean = found.attention["decoder"][0].mean(0).double().numpy()
    assert told.agreement["target"][0][0] == pytest.approx(agreement(told.target, mean, np.tri(rows, dtype=bool)))
    assert np.allclose(told.as_json()["source"], told.source, atol=1e-4)


def test_heads_that_are_off_stay_off(translator):
    off = tuple(Head("cross", layer, head) for layer in range(4) for head in range(4))
    found = inspect(translator, "Ein Hund schläft.", "A dog sleeps.", off=off)
    assert np.abs(attribute(found, "leave-one-out").source).max() < 1e-5  # nothing of the source is seen
    assert np.abs(attribute(found, "gradient-x-input").source).max() < 1e-5


def test_a_method_that_is_none_is_refused(found):
    with pytest.raises(OptionError, match="attribution"):
        attribute(found, "magic")
