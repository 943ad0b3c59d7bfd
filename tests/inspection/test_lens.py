"""What a model would write if it stopped earlier, against models that do stop earlier; the last layer is the model itself."""

import copy

import pytest
import torch
from torch import nn

from inspection.test_trace import CHANGES, SOURCE, TARGET, build, rows
from manyheads.inspection.api import inspect
from manyheads.inspection.lens import layer_logits, read_layers
from manyheads.inspection.switches import Head
from manyheads.inspection.trace import trace
from manyheads.nn import Memory


@pytest.fixture(params=CHANGES.values(), ids=CHANGES.keys())
def model(request):
    return build(request.param | {"layers": 3})


@torch.no_grad()
def test_a_layer_says_what_a_decoder_says_that_ends_there(model):
    found = trace(model, SOURCE, TARGET)
    model.eval()
    assert len(found.states) == len(model.decoder.blocks)
    for layer, state in enumerate(found.states):
        short = copy.deepcopy(model)
        short.decoder.blocks = nn.ModuleList(short.decoder.blocks[: layer + 1])
        memory = model.encode(rows(SOURCE))
        expected = short.decode(rows(TARGET), Memory(memory.states[: layer + 1], memory.layout))[0]
        torch.testing.assert_close(layer_logits(model, state), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(layer_logits(model, found.states[-1]), found.logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("off", [(), (Head("cross", 1, 2), Head("decoder", 3, 0))])
def test_the_last_layer_chooses_as_the_model_does(translator, off):
    found = inspect(translator, "Ein Hund schläft.", "A cat is asleep.", off=off)
    lens = read_layers(found)
    assert lens["norm"] == (translator.single.config.norm == "pre")
    assert len(lens["layers"]) == translator.single.config.depth
    for read, choice in zip(lens["layers"][-1], found.choices, strict=True):
        assert read["rank"] == choice.rank
        assert read["log_probability"] == pytest.approx(choice.log_probability, abs=1e-9)
        for mine, own in zip(read["candidates"], choice.candidates, strict=False):
            assert (mine["id"], mine["text"]) == (own.id, own.text)
            assert mine["log_probability"] == pytest.approx(own.log_probability, abs=1e-9)


def test_ranks_are_counted_over_all_words(translator):
    found = inspect(translator, "Ein Hund schläft.")
    model, lens = translator.single, read_layers(found)
    for layer, state in enumerate(found.trace.states):
        order = layer_logits(model, state).double().argsort(-1, descending=True)
        for t, piece in enumerate(found.target.pieces[1:]):
            assert order[t].tolist().index(piece.id) == lens["layers"][layer][t]["rank"]
