"""Desks: what is written at one is what is written without, whoever sat there before."""

from dataclasses import replace

import pytest
import torch

from decoding.test_at_once import LONGEST, model_that, padded
from manyheads.decoding import desks
from manyheads.decoding.at_once import WAYS, AtOnce
from manyheads.decoding.desks import Desks, applies, desks_of, forget_desks, rounded, write_at_desk
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


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
@torch.no_grad()
def test_what_is_written_at_a_desk_is_what_is_written_without(writes):
    model = model_that(writes, places=2.0)
    here = Desks(HERE, record=False)
    for how in HOWS:
        way = WAYS[writes](how, LONGEST)
        for sentences in BATCHES * 2:
            found = here.write(model, padded(sentences), way)
            wanted = way.compute(model, padded(sentences))
            if found is None:
                assert writes == "mask"
                assert int(wanted[1].max()) > way.room(model, rounded(padded(sentences).shape[1], LONGEST))
            else:
                same(way.read(found), way.read(wanted))


@torch.no_grad()
def test_most_lengths_find_room_and_the_others_are_told():
    model = model_that("mask")
    way = WAYS["mask"](AtOnce(lengths=1), LONGEST)
    source = padded(BATCHES[0])
    for difference, finds_room in ((-1, True), (19, True), (20, False)):  # of sources of up to 5 pieces; room is for 24
        model.length.output.weight.zero_()
        model.length.output.bias.copy_(torch.arange(2 * SPREAD + 1) == SPREAD + difference).mul_(9)
        assert (Desks(HERE, record=False).write(model, source, way) is not None) == finds_room


@torch.no_grad()
def test_a_few_desks_serve_all(monkeypatch):
    model, here = model_that("end"), Desks(HERE, record=False)
    way = WAYS["end"](AtOnce(), LONGEST)
    for sentences in ([[5, END]], [[6, 7, 8, END]], [[9] * 15 + [END]]):
        here.write(model, padded(sentences), way)
    assert [key[:2] for key in here.kept] == [(1, 16)]
    here.write(model, padded(BATCHES[0]), replace(way, how=AtOnce(batch=7)))
    here.write(model, padded(BATCHES[2]), way)
    assert [key[:2] for key in here.kept] == [(1, 16), (4, 16)]
    monkeypatch.setattr(desks, "MOST_DESKS", 2)
    here.write(model, padded(BATCHES[3]), way)
    assert [key[:2] for key in here.kept] == [(4, 16), (1, 32)]


@torch.no_grad()
def test_weights_that_lie_elsewhere_need_new_desks():
    model, here = model_that("mask"), Desks(HERE, record=False)
    way, source = WAYS["mask"](AtOnce(), LONGEST), padded(BATCHES[0])
    here.write(model, source, way)
    (first,) = here.kept.values()
    model.words.weight.add_(0.1)  # in place: a replay would see it
    here.write(model, source, way)
    assert next(iter(here.kept.values())) is first
    model.words.weight.data = model.words.weight.data.clone()
    here.write(model, source, way)
    assert next(iter(here.kept.values())) is not first


@torch.no_grad()
def test_without_memory_all_desks_are_given_up_and_after_a_fault_its_own(monkeypatch):
    model, here = model_that("mask"), Desks(HERE, record=False)
    way = WAYS["mask"](AtOnce(), LONGEST)
    here.write(model, padded(BATCHES[0]), way)

    def full(*_):
        raise torch.OutOfMemoryError

    def broken(*_):
        raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(model, "encode", broken)
        with pytest.raises(ValueError, match="broken"):
            here.write(model, padded(BATCHES[3]), way)
        assert [key[:2] for key in here.kept] == [(4, 16)]
        patch.setattr(model, "encode", full)
        assert here.write(model, padded(BATCHES[3]), way) is None
        assert not here.kept
    assert here.write(model, padded(BATCHES[3]), way) is not None


@torch.no_grad()
def test_who_gets_a_desk(monkeypatch):
    model, source = model_that("mask"), padded(BATCHES[0])
    way = WAYS["mask"](AtOnce(lengths=5), LONGEST)
    assert not applies(model, source, way)  # on a CPU
    assert write_at_desk(model, source, way) is None
    on_a_gpu = type("Source", (), {"is_cuda": True, "shape": source.shape, "__len__": lambda _: len(source)})()
    assert applies(model, on_a_gpu, way)
    monkeypatch.setattr(desks, "MOST_PLACES", 4 * 5 * 24 - 1)  # four sentences of five lengths, 1.25 · 16 + 4 places
    assert not applies(model, on_a_gpu, way)
    assert applies(model, on_a_gpu, replace(way, how=AtOnce(lengths=4)))
    assert applies(model, on_a_gpu, replace(way, how=AtOnce(length=9)))
    handle = model.encoder.register_forward_hook(lambda *_: None)
    assert not applies(model, on_a_gpu, replace(way, how=AtOnce(lengths=4)))
    handle.remove()
    assert desks_of(model) is desks_of(model)
    before = desks_of(model)
    forget_desks(model)
    forget_desks(torch.nn.Linear(1, 1))
    assert desks_of(model) is not before


@pytest.mark.parametrize(("length", "longest", "wanted"), [(1, 40, 16), (16, 40, 16), (17, 40, 32), (39, 40, 40), (40, 40, 40), (129, 999, 256)])  # fmt: skip
def test_a_source_is_rounded_up_as_far_as_there_are_positions(length, longest, wanted):
    assert rounded(length, longest) == wanted
