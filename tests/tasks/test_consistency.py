"""SimCut and R-Drop against their formulas, written out in loops, and against finite differences."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import OptionError, Transformer, TransformerConfig, load_recipe
from manyheads.recipe import TrainConfig
from manyheads.tasks import consistency
from manyheads.tasks.consistency import choose_loss, cut_words, draw_uncut
from manyheads.tasks.losses import divergence, log_probabilities, smoothed_loss
from manyheads.tasks.pairs import PairBatch

WORDS, NOTHING = 12, 11
"""NOTHING is a word whose vector is zeros: what a cut word is to the model."""


def build(tie="all", dropout=0.0, dtype=torch.float64):
    config = TransformerConfig(width=16, layers=1, heads=2, feedforward=32, dropout=dropout, norm="pre", tie=tie)
    model = Transformer(config, WORDS).to(dtype)
    for table in (model.words, model.target_words):
        if table is not None:
            table.weight.data[NOTHING] = 0
    return model


def draw_batch(rows=5, source_length=6, target_length=7, seed=3):
    """Source, target and labels, with padding behind some of them."""
    torch.manual_seed(seed)
    source = torch.randint(2, NOTHING, (rows, source_length))
    labels = torch.randint(2, NOTHING, (rows, target_length))
    for row in range(rows):
        source[row, source_length - row % 3 :] = 0
        labels[row, target_length - row % 4 :] = 0
    return source, F.pad(labels[:, :-1], (1, 0), value=1), labels


def distribution(logits):
    peak = max(logits)
    total = sum(math.exp(x - peak) for x in logits)
    return [math.exp(x - peak) / total for x in logits]


def formula(logits, others, labels, smoothing, kl):
    """(Σ CE(p), Σ kl(p, q)) over the tokens that are no padding, token by token and word by word."""
    entropy = apart = 0.0
    for row, label_row in enumerate(labels.tolist()):
        for place, label in enumerate(label_row):
            if label == 0:
                continue
            p, q = (distribution(side[row, place].tolist()) for side in (logits, others))
            for word in range(WORDS):
                wanted = smoothing / WORDS + (1 - smoothing) * (word == label)
                entropy -= wanted * math.log(p[word])
                apart += kl(p[word], q[word])
    return entropy, apart


def kl(p, q):
    return p * (math.log(p) - math.log(q))


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_simcut_is_its_formula(tie):
    """A cut word is one whose vector is zeros, at the same place."""
    model, (source, target, labels) = build(tie), draw_batch()
    torch.manual_seed(9)
    kept = [draw_uncut(ids, 0.3)[len(ids) :] for ids in (source, target)]
    assert not kept[0].all()
    assert not kept[1].all()
    with torch.no_grad():
        whole = model(source, target)
        layout = padding_of(source)
        holes = model(source.where(kept[0], NOTHING), target.where(kept[1], NOTHING), layout)
        entropy, apart = formula(whole, holes, labels, 0.1, kl)
        torch.manual_seed(9)
        loss = choose_loss(TrainConfig(simcut=3.0, cut=0.3))(model, PairBatch(source, target, labels))
    assert apart > 0.1
    assert loss.item() == pytest.approx(entropy + 3.0 * apart, rel=1e-12)


def padding_of(source):
    """The padding of the source as it was before anything was cut."""
    from manyheads.nn import Padded

    return Padded.like(source, keep=source != 0)


def test_r_drop_is_its_formula():
    labels = draw_batch()[2]
    one, other = torch.randn(2, *labels.shape, WORDS, dtype=torch.float64) * 3
    model = lambda source, target: torch.cat([one, other])  # noqa: E731
    loss = choose_loss(TrainConfig(rdrop=5.0, smoothing=0.2))(model, PairBatch(labels, labels, labels))
    first, forth = formula(one, other, labels, 0.2, kl)
    second, back = formula(other, one, labels, 0.2, kl)
    assert loss.item() == pytest.approx((first + second) / 2 + 5.0 * (forth + back) / 4, rel=1e-12)


def test_two_passes_have_two_dropouts():
    model, (source, target, labels) = build(dropout=0.3), draw_batch()
    one, other = consistency.predict_twice(model, PairBatch(source, target, labels)).chunk(2)
    assert (one - other).abs().max() > 0.01
    assert divergence(log_probabilities(one), log_probabilities(other), labels) > 0


@pytest.mark.parametrize("off", [{}, {"simcut": 0.0, "rdrop": 0.0, "cut": 0.5}])
def test_switched_off_it_is_the_plain_loss_bit_for_bit(off):
    model, (source, target, labels) = build(dropout=0.2, dtype=torch.float32), draw_batch()
    torch.manual_seed(1)
    loss = choose_loss(TrainConfig(**off))(model, PairBatch(source, target, labels))
    torch.manual_seed(1)
    logits = model(source, target).flatten(0, 1)
    expected = F.cross_entropy(logits, labels.flatten(), ignore_index=0, label_smoothing=0.1, reduction="sum")
    assert torch.equal(loss, expected)


@pytest.mark.parametrize("consistent", [{"simcut": 7.0, "cut": 0.0}, {"rdrop": 7.0}], ids=["simcut", "rdrop"])
def test_passes_that_are_equal_add_nothing(consistent):
    model, batch = build(), PairBatch(*draw_batch())
    plain, loss = (choose_loss(TrainConfig(**config))(model, batch) for config in ({}, consistent))
    assert loss.item() == pytest.approx(plain.item(), rel=1e-13)


CONSISTENT = {"simcut": TrainConfig(simcut=3.0, cut=0.2), "rdrop": TrainConfig(rdrop=5.0)}


@pytest.mark.parametrize("name", CONSISTENT)
def test_the_gradient_is_that_of_finite_differences(name):
    """So it flows into both passes: with one of them held fixed, it would be another."""
    model, batch, loss = build(dropout=0.2), PairBatch(*draw_batch()), choose_loss(CONSISTENT[name])

    def value():
        torch.manual_seed(4)
        return loss(model, batch)

    value().backward()
    step = 1e-6
    for parameter in model.parameters():
        direction = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        with torch.no_grad():
            parameter += step * direction
            above = value()
            parameter -= 2 * step * direction
            below = value()
            parameter += step * direction
        slope = ((above - below) / (2 * step)).item()
        assert (parameter.grad * direction).sum().item() == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", CONSISTENT)
def test_parts_of_a_batch_make_the_same_gradient(name, monkeypatch):
    """64 pairs at once or 16 at a time, if the same words are cut."""

    def same_cuts(ids, cut):
        kept = (ids * 7 + torch.arange(ids.shape[1])) % 5 != 0
        return torch.cat([torch.ones_like(kept), kept])

    monkeypatch.setattr(consistency, "draw_uncut", same_cuts)
    batch, loss, gradients = PairBatch(*draw_batch(rows=64)), choose_loss(CONSISTENT[name]), []
    for parts in (1, 4):
        torch.manual_seed(0)
        model = build()
        for part in batch.split(parts):
            loss(model, part).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for whole, summed in zip(*gradients, strict=True):
        assert (whole - summed).norm() <= 1e-12 * whole.norm()


@settings(max_examples=50)
@given(st.integers(0, 9_999), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3))
def test_padding_never_counts(seed, rows, length, more):
    torch.manual_seed(seed)
    p, q = torch.randn(2, rows, length + more, WORDS)
    labels = F.pad(torch.randint(1, WORDS, (rows, length)), (0, more))
    p[:, length:], q[:, length:] = 1e4, -1e4  # whatever a model says there
    losses = [
        (smoothed_loss(log_probabilities(a), b, 0.1), divergence(log_probabilities(a), log_probabilities(c), b))
        for a, b, c in ((p, labels, q), (p[:, :length], labels[:, :length], q[:, :length]))
    ]
    torch.testing.assert_close(losses[0], losses[1])
    assert losses[0][1] >= -1e-5
    assert divergence(log_probabilities(p), log_probabilities(p), labels) == 0


def test_halves_are_summed_in_float32():
    logits, others = (100 * torch.randn(2, 3, 50)).bfloat16(), torch.randn(2, 3, 50).bfloat16()
    labels = torch.randint(1, 50, (2, 3))
    exact = divergence(log_probabilities(logits.double()), log_probabilities(others.double()), labels)
    assert divergence(log_probabilities(logits), log_probabilities(others), labels).item() == pytest.approx(
        exact.item(), rel=1e-5
    )


def test_where_a_word_stood_is_still_seen():
    """With every word cut, pairs of equal lengths are alike, and positions still tell their tokens apart."""
    model, (source, target, _) = build(), draw_batch(rows=6)
    with torch.no_grad(), cut_words(model, torch.zeros_like(source).bool(), torch.zeros_like(target).bool()):
        logits = model(source, target)
    torch.testing.assert_close(logits[0], logits[3])  # lengths of sources go round in threes
    assert (logits[0, 0] - logits[0, 1]).abs().max() > 1e-3


def test_nothing_stays_cut():
    model, (source, target, _) = build(), draw_batch()
    before = model(source, target)
    with cut_words(model, source > 99, target > 99):
        assert not torch.equal(model(source, target), before)
    with pytest.raises(ValueError, match="as many targets as sources"):
        choose_loss(TrainConfig(simcut=1.0))(model, PairBatch(source, target[1:], target))
    assert torch.equal(model(source, target), before)


def test_a_share_of_the_twin_is_cut():
    torch.manual_seed(0)
    kept = draw_uncut(torch.ones(100, 100, dtype=torch.long), 0.05)
    assert kept[:100].all()
    assert 0.04 < 1 - kept[100:].double().mean() < 0.06


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"train.simcut": 3.0, "train.rdrop": 5.0},
            "in [train], a model learns with SimCut or with R-Drop, got simcut = 3.0 and rdrop = 5.0 (rdrop = 0 turns R-Drop off)",
        ),
        (
            {"train.rdrop": 5.0, "model.dropout": 0.0},
            "R-Drop compares two dropouts, got train.rdrop = 5.0 and no dropout in [model] (rdrop = 0 turns R-Drop off)",
        ),
        ({"train.cut": 1.0}, "train.cut must be between 0 and 0.99, got 1.0"),
    ],
)
def test_what_cannot_be_is_refused(changes, complaint):
    with pytest.raises(OptionError) as error:
        load_recipe("tiny", changes)
    assert error.value.message.endswith(complaint)


@pytest.mark.plain
@pytest.mark.parametrize("tie", ["all", "target", "none"])
@pytest.mark.parametrize("config", [TrainConfig(), *CONSISTENT.values()], ids=["plain", *CONSISTENT])
def test_fused_from_the_states_on_it_is_the_same_loss(config, tie, monkeypatch):
    """The value, and the gradient of every weight; also of a table that words are looked up in as well."""
    pytest.importorskip("triton")
    monkeypatch.setattr(consistency, "vocabulary_loss_applies", lambda states: True)  # its kernel is interpreted here
    model, batch, loss = build(tie, dropout=0.2, dtype=torch.float32), PairBatch(*draw_batch()), choose_loss(config)
    results = []
    for way in (loss, loss.fused()):
        torch.manual_seed(4)
        value = way(model, batch)
        results.append([value, *torch.autograd.grad(value, list(model.parameters()))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("config", [TrainConfig(), *CONSISTENT.values()], ids=["plain", *CONSISTENT])
def test_where_there_is_no_kernel_logits_are_judged(config):
    model, batch, loss = build(), PairBatch(*draw_batch()), choose_loss(config)
    values = []
    for way in (loss, loss.fused()):
        torch.manual_seed(4)
        values.append(way(model, batch).item())
    assert values[0] == pytest.approx(values[1], rel=1e-12)
