"""Packed pairs are the padded ones: same tokens, same loss, same gradient."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import Transformer, TransformerConfig
from manyheads.recipe import TrainConfig
from manyheads.tasks import consistency
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.pairs import pack_pairs, pad_in_parts, pad_pairs
from manyheads.text.packs import Room
from manyheads.text.shards import Rows

WORDS = 20
PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6)


def rows_of(lengths, seed):
    lengths = np.array(lengths, np.int64)
    ids = np.random.default_rng(seed).integers(3, WORDS, lengths.sum() + 1)
    return Rows(ids, np.cumsum(lengths) - lengths, lengths)


def both(lengths, seed=0, room=None):
    sources, targets = (rows_of(side, seed + n) for n, side in enumerate(zip(*lengths, strict=True)))
    room = room or Room(64, 70, len(lengths) + 2)
    return pad_pairs(sources, targets), pack_pairs(sources, targets, room, 10)


@given(PAIRS, st.integers(0, 999))
def test_a_pack_has_the_tokens_of_the_rows(lengths, seed):
    padded, packed = both(lengths, seed)
    for name in ("source", "target", "labels"):
        flat, offsets = getattr(packed, name), packed.source_offsets if name == "source" else packed.target_offsets
        for row, (start, end) in zip(getattr(padded, name), pairwise(offsets), strict=False):
            assert row[row != 0].tolist() == flat[start:end].tolist()
        assert (flat[offsets[len(lengths)] :] == 0).all()
        assert offsets[-1] == len(flat)
        assert offsets.diff().min() >= 0
        assert offsets.diff().max() <= packed.longest
        assert len(offsets) == len(lengths) + 2 + 7 + 1  # of padding, seven sentences of at most ten
    assert padded.count == (packed.labels != 0).sum()


def model_of(**options):
    torch.manual_seed(0)
    config = TransformerConfig(width=16, layers=2, heads=2, feedforward=32, dropout=0.0, norm="pre", **options)
    return Transformer(config, WORDS).double()


@pytest.mark.parametrize("options", [{}, {"positions": "rotary", "qk_norm": True}, {"kv_heads": 1}])
@settings(max_examples=10)
@given(PAIRS, st.integers(0, 99))
def test_loss_and_gradient_are_those_of_the_padded_batch(options, lengths, seed):
    results = []
    for batch in both(lengths, seed):
        model = model_of(**options)
        loss = choose_loss(TrainConfig())(model, batch)
        loss.backward()
        results.append((loss.detach(), [p.grad for p in model.parameters()]))
    (padded, gradients), (packed, others) = results
    torch.testing.assert_close(padded, packed, rtol=1e-10, atol=1e-10)
    for one, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_learned_positions_reach_as_far_as_the_table():
    """Also for padding: it is cut into sentences, too."""
    padded, packed = both([(3, 4), (5, 2)])
    model = model_of(positions="learned", max_length=10)
    losses = [choose_loss(TrainConfig())(model, batch) for batch in (padded, packed)]
    torch.testing.assert_close(*losses)


def test_twice_is_the_same_pairs_once_more():
    _, packed = both([(3, 4), (5, 2)])
    model = model_of()
    once, twice = model(*packed.inputs), model(*packed.twice().inputs)
    kept = packed.labels != 0
    for half in twice.chunk(2):
        torch.testing.assert_close(half[kept], once[kept])


@pytest.mark.parametrize("config", [TrainConfig(rdrop=3.0), TrainConfig(simcut=2.0, cut=0.0)])
def test_consistency_in_packs(config):
    losses = [choose_loss(config)(model_of(), batch) for batch in both([(3, 4), (5, 2), (1, 1)])]
    torch.testing.assert_close(*losses)


@pytest.mark.plain
@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernel is interpreted here; tests/gpu has it as it is")
@pytest.mark.parametrize("config", [TrainConfig(), TrainConfig(rdrop=3.0), TrainConfig(simcut=2.0, cut=0.0)])
def test_the_fused_loss_of_a_pack_is_that_of_the_padded_batch(config, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(consistency, "vocabulary_loss_applies", lambda states: True)  # its kernel is interpreted here
    padded, packed = both([(3, 4), (5, 2), (1, 1)])
    loss, model = choose_loss(config), model_of().float()
    torch.testing.assert_close(loss.fused()(model, packed), loss(model, padded))


def test_an_empty_pack_teaches_nothing():
    sources, targets = rows_of([], 0), rows_of([], 1)
    packed = pack_pairs(sources, targets, Room(64, 64, 3), 10)
    loss = choose_loss(TrainConfig())(model_of(), packed)
    assert loss.item() == 0


@given(PAIRS, st.integers(1, 40))
def test_padded_parts_have_all_pairs_within_the_budget(lengths, tokens):
    sources, targets = (rows_of(side, n) for n, side in enumerate(zip(*lengths, strict=True)))
    parts = pad_in_parts(sources, targets, tokens)
    assert sum(part.count for part in parts) == pad_pairs(sources, targets).count
    assert sum(len(part.source) for part in parts) == len(lengths)
    for part in parts:
        assert len(part.source) * max(part.source.shape[1], part.target.shape[1]) <= tokens or len(part.source) == 1
