"""On a GPU: what a desk has recorded writes what the same work writes as it is."""

import pytest
import torch

from decoding.test_at_once import LONGEST, model_that, padded
from decoding.test_desks import BATCHES, HOWS, same
from manyheads.decoding.at_once import WAYS, AtOnce, unseen, write_at_once
from manyheads.decoding.desks import desks_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.plain,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
@torch.no_grad()
def test_recorded_is_as_it_is(writes):
    model = model_that(writes, places=2.0).float().cuda()
    for how in HOWS:
        for sentences in BATCHES * 3:
            source = padded(sentences).cuda()
            way = WAYS[writes](how, LONGEST)
            same(write_at_once(model, source, how, LONGEST), way.read(way.compute(model, source)))
    recordings = [desk.player for desk in desks_of(model).kept.values()]
    assert recordings
    assert all(one.graph is not None for one in recordings)


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
@torch.no_grad()
def test_a_replay_sees_weights_that_changed_in_place(writes):
    model = model_that(writes, places=2.0).float().cuda()
    source, how = padded(BATCHES[0]).cuda(), AtOnce(iterations=2)
    for _ in range(3):
        before = write_at_once(model, source, how, LONGEST)
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
        after = write_at_once(model, source, how, LONGEST)
        same(after, write_at_once(model, source, how, LONGEST, lambda _: unseen(_)))  # whoever looks sits at no desk
        assert [one.ids for found in before for one in found] != [one.ids for found in after for one in found]


@torch.no_grad()
def test_in_half_precision():
    model = model_that("mask").half().cuda()
    source, how = padded(BATCHES[0]).cuda(), AtOnce(iterations=2, lengths=1)
    wanted = write_at_once(model, source, how, LONGEST, lambda _: unseen(_))
    for _ in range(3):
        found = write_at_once(model, source, how, LONGEST)
        assert [len(one.ids) for one, *_ in found] == [len(one.ids) for one, *_ in wanted]
        assert [one.score for one, *_ in found] == pytest.approx([one.score for one, *_ in wanted], abs=0.02)
