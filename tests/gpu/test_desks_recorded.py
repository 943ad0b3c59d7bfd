"""On a GPU: what a desk has recorded writes what the same work writes as it is."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from decoding.test_at_once import LONGEST, WORDS, model_that, padded
from decoding.test_desks import BATCHES, HOWS, same
from manyheads.decoding.at_once import write_at_once
from manyheads.decoding.desks import desks_of
from manyheads.decoding.judging import Judged, WriterAndJudge
from manyheads.decoding.way import AtOnce
from manyheads.models.config import TransformerConfig
from manyheads.models.transformer import Transformer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.plain,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]


def without_a_desk(model, source, how):
    """Whoever is looked at sits at none."""
    return write_at_once(model, source, how, LONGEST, lambda _: None)


def assert_recorded_is_as_it_is(model):
    for how in HOWS:
        for sentences in BATCHES * 3:
            source = padded(sentences).cuda()
            same(write_at_once(model, source, how, LONGEST), without_a_desk(model, source, how))
    recordings = [desk.player for desk in desks_of(model).kept.values()]
    assert recordings
    assert all(one.graph is not None for one in recordings)


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
@torch.no_grad()
def test_recorded_is_as_it_is(writes):
    assert_recorded_is_as_it_is(model_that(writes, places=2.0).float().cuda())


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
        same(after, without_a_desk(model, source, how))
        assert [one.ids for found in before for one in found] != [one.ids for found in after for one in found]


@pytest.mark.parametrize("writes", ["mask", "graph"])
@torch.no_grad()
def test_what_is_judged_is_one_recording(writes):
    model = model_that(writes, places=2.0).float().cuda()
    torch.manual_seed(7)
    shape = TransformerConfig(width=16, layers=2, heads=2, feedforward=32, norm="pre")
    assert_recorded_is_as_it_is(WriterAndJudge(model, Transformer(shape, WORDS).eval().cuda(), alpha=0.7))


@torch.no_grad()
def test_where_a_judge_has_no_desk_its_writer_has_one(monkeypatch):
    model = model_that("graph", places=2.0).float().cuda()
    shape = TransformerConfig(width=16, layers=2, heads=2, feedforward=32, norm="pre")
    team = WriterAndJudge(model, Transformer(shape, WORDS).eval().cuda(), alpha=0.7)
    monkeypatch.setattr(Judged, "rows", 10**6)  # more than there are places
    for sentences in BATCHES * 3:
        source = padded(sentences).cuda()
        same(
            write_at_once(team, source, AtOnce(iterations=2), LONGEST),
            without_a_desk(team, source, AtOnce(iterations=2)),
        )
    assert not desks_of(team).kept
    assert any(desk.player.graph is not None for desk in desks_of(model).kept.values())


@torch.no_grad()
def test_in_half_precision():
    model = model_that("mask").half().cuda()
    source, how = padded(BATCHES[0]).cuda(), AtOnce(iterations=2, lengths=1)
    wanted = without_a_desk(model, source, how)
    for _ in range(3):
        found = write_at_once(model, source, how, LONGEST)
        assert [one.ids for one, *_ in found] == [one.ids for one, *_ in wanted]
        assert [one.score for one, *_ in found] == pytest.approx([one.score for one, *_ in wanted], abs=0.02)


@torch.no_grad()
def test_many_at_the_same_time():
    model, how = model_that("graph", places=2.0).float().cuda(), AtOnce()
    turns = [padded(BATCHES[0]).cuda(), padded(BATCHES[4]).cuda()] * 50
    wanted = [without_a_desk(model, source, how) for source in turns[:2]]

    def write(source):
        with torch.cuda.stream(torch.cuda.Stream()):
            return write_at_once(model, source, how, LONGEST)

    torch.cuda.synchronize()
    with ThreadPoolExecutor(8) as pool:
        for n, found in enumerate(pool.map(write, turns)):
            same(found, wanted[n % 2])
