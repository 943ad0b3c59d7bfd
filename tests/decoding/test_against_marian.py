"""The model and the search that `benchmarks.decode_gpu` times, against Hugging Face's: the same numbers, the same words."""

import pytest
import torch
from benchmarks.marian import SHAPE, as_marian, generate, misfits

from manyheads import Transformer, TransformerConfig
from manyheads.decoding.beam import beam_search
from manyheads.decoding.rooms import resident_search
from manyheads.text.tokenizer import BEGIN, END, PADDING

WORDS = 40


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(4)
    config = TransformerConfig(width=32, layers=2, decoder_layers=3, heads=4, feedforward=48, dropout=0.1, **SHAPE)
    model = Transformer(config, WORDS).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model, as_marian(model, longest=64)


def draw_batch(lengths):
    rows = [torch.randint(END, WORDS, (length,)) for length in lengths]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


@torch.no_grad()
def test_logits_are_marians(models):
    model, marian = models
    source, target = draw_batch([7, 3, 12]), torch.cat([torch.full((3, 1), BEGIN), draw_batch([9, 9, 9])], 1)
    theirs = marian(input_ids=source, attention_mask=(source != PADDING).long(), decoder_input_ids=target).logits
    torch.testing.assert_close(model(source, target), theirs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("beam", [1, 2, 5])
@torch.no_grad()
def test_outputs_are_those_of_generate(models, beam):
    model, marian = models
    outputs = set()
    for _ in range(6):
        source, limit = draw_batch([5, 11, 2, 8]), 24
        wanted = generate(marian, source, limit, beam)
        assert generate(marian, source, limit, beam, static=True) == wanted
        for search in (resident_search, beam_search):
            found = search(model, source, [limit] * 4, beam=beam, alpha=0.0)
            assert [one[0].ids for one in found] == wanted
        outputs |= set(map(tuple, wanted))
    assert len(outputs) > 3


def test_another_shape_is_refused(models):
    assert misfits(models[0].config) == []
    assert misfits(TransformerConfig(norm="pre", kv_heads=2)) == [
        "norm=pre", "positions=sinusoidal", "bias=False", "heads of another width",
    ]  # fmt: skip
