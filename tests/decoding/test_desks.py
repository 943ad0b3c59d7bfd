"""Desks: what is written at one is what is written without, whoever sat there before."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from decoding.test_at_once import LONGEST, model_that, padded
from manyheads.decoding import desks
from manyheads.decoding.at_once import WAYS
from manyheads.decoding.desks import Desks, applies, desks_of, rounded, write_at_desk
from manyheads.decoding.recordings import forget_recordings
from manyheads.decoding.way import AtOnce
from manyheads.models.parallel import SPREAD
from manyheads.text.tokenizer import END

HERE = torch.device("cpu")
BATCHES = [
    [[5, 6, 7, 8, END], [9, END], [12, 13, 14, END]],
    [[END]],
    [[7, END], [8, 8, 8, 8, 8, 8, 8, 8, 8, END]],
    [[n % 17 + 3 for n in range(18)] + [END]],
    [[6, 7, END], [5, END], [9, 9, END]],
]
HOWS = [AtOnce(iterations=3, lengths=3), AtOnce(iterations=1, length=5), AtOnce(iterations=2, stretch=1.5)]


def same(found, wanted):
    for mine, other in zip(found, wanted, strict=True):
        assert [one.ids for one in mine] == [one.ids for one in other]
        assert [one.finished for one in mine] == [one.finished for one in other]
        assert [one.score for one in mine] == pytest.approx([one.score for one in other])


def plainly(model, way, sentences):
    return way.read(way.compute(model, padded(sentences)))


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
@torch.no_grad()
def test_what_is_written_at_a_desk_is_what_is_written_without(writes):
    model = model_that(writes, places=2.0)
    here = Desks(HERE, record=False)
    for how in HOWS:
        way = WAYS[writes](how, LONGEST)
        for sentences in BATCHES * 2:
            found = here.write(model, padded(sentences), way, way.read) or here.write(
                model, padded(sentences), way, way.read
            )
            same(found, plainly(model, way, sentences))


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
@torch.no_grad()
def test_who_comes_next_does_not_change_what_was_read(writes):
    """Also if many come at the same time."""
    model, here = model_that(writes, places=2.0), Desks(HERE, record=False)
    way = WAYS[writes](AtOnce(iterations=2, length=5) if writes == "mask" else AtOnce(iterations=2), LONGEST)
    turns = [BATCHES[0], BATCHES[4]] * 30
    wanted = {id(sentences): plainly(model, way, sentences) for sentences in turns}

    @torch.no_grad()
    def write(sentences):
        return here.write(model, padded(sentences), way, way.read)

    with ThreadPoolExecutor(8) as pool:
        for sentences, found in zip(turns, pool.map(write, turns), strict=True):
            same(found, wanted[id(sentences)])
    assert len(here.kept) == 1


@torch.no_grad()
def test_where_there_were_not_enough_places_there_are_from_then_on(monkeypatch):
    model, here = model_that("mask"), Desks(HERE, record=False)
    way, source = WAYS["mask"](AtOnce(lengths=1), LONGEST), padded(BATCHES[0])
    rooms = []
    compute = type(way).compute
    monkeypatch.setattr(
        type(way), "compute", lambda way, model, ids, room: rooms.append(room) or compute(way, model, ids, room)
    )
    for difference, finds_room in (
        (-1, True),
        (19, True),
        (20, False),
        (20, True),
        (-1, True),
    ):  # of sources of up to 5 pieces
        model.length.output.weight.zero_()
        model.length.output.bias.copy_(torch.arange(2 * SPREAD + 1) == SPREAD + difference).mul_(9)
        assert (here.write(model, source, way, way.read) is not None) == finds_room
    assert rooms == [24, 24, 24, 32, 32]


@torch.no_grad()
def test_a_few_desks_serve_all(monkeypatch):
    model, here = model_that("end"), Desks(HERE, record=False)
    way = WAYS["end"](AtOnce(), LONGEST)
    for sentences in ([[5, END]], [[6, 7, 8, END]], [[9] * 15 + [END]]):
        here.write(model, padded(sentences), way, way.read)
    assert [key[:2] for key in here.kept] == [(1, 16)]
    here.write(model, padded(BATCHES[0]), replace(way, how=AtOnce(batch=7)), way.read)
    here.write(model, padded(BATCHES[2]), way, way.read)
    assert [key[:2] for key in here.kept] == [(1, 16), (4, 16)]
    monkeypatch.setattr(desks, "MOST_DESKS", 2)
    here.write(model, padded(BATCHES[3]), way, way.read)
    assert [key[:2] for key in here.kept] == [(4, 16), (1, 32)]


def test_many_sentences_are_rounded_up_by_less():
    """Where more places cost time, a power of two; where they do not, fewer shapes."""
    model, here = model_that("mask"), Desks(HERE, record=False)
    way = WAYS["mask"](AtOnce(lengths=5), 999)
    for sentences, length, wanted in ((17, 16, 64), (17, 17, 32), (33, 17, 64), (5, 64, 16), (5, 96, 8), (2, 512, 2)):
        shape, room = here.fitting(model, torch.zeros(sentences, length, dtype=torch.int64), way)
        assert (shape.sentences, room) == (wanted, -(-5 * shape.source // 4) + 4), (sentences, length)


@torch.no_grad()
def test_weights_that_lie_elsewhere_need_new_desks():
    model, here = model_that("mask"), Desks(HERE, record=False)
    way, source = WAYS["mask"](AtOnce(length=5), LONGEST), padded(BATCHES[0])
    here.write(model, source, way, way.read)
    (first,) = here.kept.values()
    model.words.weight.add_(0.1)  # in place: a replay would see it
    here.write(model, source, way, way.read)
    assert next(iter(here.kept.values())) is first
    model.words.weight.data = model.words.weight.data.clone()
    here.write(model, source, way, way.read)
    assert next(iter(here.kept.values())) is not first


@torch.no_grad()
def test_a_shape_without_memory_is_not_tried_again_and_a_fault_costs_its_own_desk(monkeypatch):
    model, here = model_that("mask"), Desks(HERE, record=False)
    way = WAYS["mask"](AtOnce(length=5), LONGEST)
    here.write(model, padded(BATCHES[0]), way, way.read)
    tries = []

    def full(*_):
        tries.append(1)
        raise torch.OutOfMemoryError

    def broken(*_):
        raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(model, "encode", broken)
        with pytest.raises(ValueError, match="broken"):
            here.write(model, padded(BATCHES[3]), way, way.read)
        patch.setattr(model, "encode", full)
        assert here.write(model, padded(BATCHES[3]), way, way.read) is None
        assert here.write(model, padded(BATCHES[3]), way, way.read) is None
    assert tries == [1]
    assert [shape[:2] for shape in here.kept] == [(4, 16)]
    assert here.write(model, padded(BATCHES[0]), way, way.read) is not None


@torch.no_grad()
def test_who_gets_a_desk(monkeypatch):
    model, source = model_that("mask"), padded(BATCHES[0])
    assert not applies(model, source)  # on a CPU
    way = WAYS["mask"](AtOnce(length=5), LONGEST)
    assert write_at_desk(model, source, way, way.read) is None
    on_a_gpu = type("Source", (), {"is_cuda": True})()
    assert applies(model, on_a_gpu)
    assert not applies(torch.nn.Linear(1, 1), on_a_gpu)
    handle = model.encoder.register_forward_hook(lambda *_: None)
    assert not applies(model, on_a_gpu)
    handle.remove()
    assert applies(model, on_a_gpu)
    here = Desks(HERE, record=False)
    model.length.output.weight.zero_()  # lengths near the source's
    model.length.output.bias.copy_(-(torch.arange(2 * SPREAD + 1) - SPREAD).abs())
    monkeypatch.setattr(desks, "MOST_PLACES", 4 * 5 * 24 - 1)  # four sentences of five lengths, 1.25 · 16 + 4 places
    for how, gets_one in ((AtOnce(lengths=5), False), (AtOnce(lengths=4), True), (AtOnce(length=9), True)):
        way = WAYS["mask"](how, LONGEST)
        assert (here.write(model, source, way, way.read) is not None) == gets_one
    before = desks_of(model)
    assert desks_of(model) is before
    forget_recordings(model)
    forget_recordings(torch.nn.Linear(1, 1))
    assert desks_of(model) is not before


@pytest.mark.parametrize(("length", "longest", "wanted"), [(1, 40, 16), (16, 40, 16), (17, 40, 32), (39, 40, 40), (40, 40, 40), (129, 999, 256)])  # fmt: skip
def test_a_source_is_rounded_up_as_far_as_there_are_positions(length, longest, wanted):
    assert rounded(length, longest) == wanted
