"""Models whose matrices are held in 8 bits: all of their products are, and what they compute hardly changes."""

import copy
from dataclasses import replace

import pytest
import torch

from manyheads import Transformer, TransformerConfig
from manyheads.models.classifier import TextClassifier
from manyheads.models.config import EncoderConfig, LanguageModelConfig, ParallelConfig
from manyheads.models.eightbit import hold_in_eight_bits
from manyheads.models.encoder import TextEncoder
from manyheads.models.language_model import LanguageModel
from manyheads.models.masked_model import MaskedModel
from manyheads.models.parallel import ParallelTransformer
from manyheads.nn import Padded
from manyheads.nn.eightbits import is_exact
from manyheads.nn.linear import Linear

pytestmark = pytest.mark.skipif(not is_exact(), reason="this processor adds up 8-bit products inexactly")

WORDS, SIZE = 40, {"width": 64, "layers": 2, "heads": 4, "feedforward": 96}
PLAIN = TransformerConfig(**SIZE, norm="pre", tie="none")
SOURCE, TARGET = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]]), torch.tensor([[1, 9, 4], [1, 7, 3]])


def translates(config):
    return lambda: Transformer(config, WORDS), lambda model: model(SOURCE, TARGET)


def steps(config):
    """Token by token, with a cache, which reads its memory by a part of a matrix."""

    def write(model):
        cache = model.start(model.encode(SOURCE))
        return torch.cat([model.step(TARGET[:, n : n + 1], cache) for n in range(3)], 1)

    return lambda: Transformer(config, WORDS), write


def at_once(writes):
    config = ParallelConfig(**SIZE, norm="pre", tie="all", writes=writes)
    return lambda: ParallelTransformer(config, WORDS), lambda model: model(SOURCE, TARGET)[0]


KINDS = {
    "plain": translates(PLAIN),
    "post-norm with biases, tied": translates(replace(PLAIN, norm="post", bias=True, tie="all")),
    "rotary, grouped heads": translates(replace(PLAIN, positions="rotary", kv_heads=2, qk_norm=True, tie="target")),
    "layer by layer, gated": translates(replace(PLAIN, cross="same", activation="swiglu")),
    "step by step": steps(PLAIN),
    "masks": at_once("mask"),
    "graph": at_once("graph"),
    "encoder": (
        lambda: TextEncoder(EncoderConfig(**SIZE), WORDS), lambda model: model(SOURCE, Padded.like(SOURCE, keep=SOURCE != 0)),
    ),
    "language model, tied": (
        lambda: LanguageModel(LanguageModelConfig(**SIZE, tie=True), WORDS), lambda model: model(TARGET),
    ),
    "language model": (
        lambda: LanguageModel(LanguageModelConfig(**SIZE, tie=False), WORDS), lambda model: model(TARGET),
    ),
}  # fmt: skip


def build(make):
    torch.manual_seed(1)
    model = make().eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    held = copy.deepcopy(model)
    hold_in_eight_bits(held)
    return model, held


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_what_it_computes_hardly_changes(kind):
    make, compute = KINDS[kind]
    model, held = build(make)
    wanted, found = compute(model), compute(held)
    assert not torch.equal(found, wanted)
    assert (found - wanted).norm() < 0.03 * wanted.norm()


@pytest.mark.parametrize("kind", KINDS)
def test_every_linear_layer_and_every_word_is_held_in_eight_bits(kind):
    held = build(KINDS[kind][0])[1]
    assert not any(isinstance(part, Linear) for part in held.modules())
    assert held.words.weight.dtype == torch.int8


@torch.no_grad()
def test_a_classifier_and_what_predicts_masked_words():
    config = EncoderConfig(**SIZE)
    layout = Padded.like(SOURCE, keep=SOURCE != 0)
    for make in (lambda: TextClassifier(config, WORDS, 3), lambda: MaskedModel(config, WORDS)):
        model, held = build(make)
        wanted, found = model(SOURCE, layout), held(SOURCE, layout)
        assert (found - wanted).norm() < 0.1 * wanted.norm()


@torch.no_grad()
def test_its_bits_do_not_depend_on_the_batch_but_for_attention():
    """With nothing to attend to but itself, a text gives the same bits in any company."""
    held = build(KINDS["language model"][0])[1]
    tokens = torch.arange(3, 23)[:, None]
    assert torch.equal(held(tokens)[7], held(tokens[7:8])[0])


def test_matrices_of_one_column_stay_as_they_are():
    thin = TransformerConfig(width=1, layers=1, heads=1, feedforward=2, norm="pre", positions="none")
    model, held = build(lambda: Transformer(thin, WORDS))
    assert isinstance(held.decoder.blocks[0].feedforward.up, Linear)
    assert not isinstance(held.decoder.blocks[0].feedforward.down, Linear)
    assert held.words.weight.dtype == torch.float32
    with torch.no_grad():
        torch.testing.assert_close(held(SOURCE, TARGET), model(SOURCE, TARGET), atol=0.1, rtol=0.1)


def test_a_model_in_eight_bits_is_a_quarter_of_the_size():
    model, held = build(lambda: Transformer(replace(PLAIN, width=256, feedforward=1024), 1000))
    size = [sum(t.nbytes for t in one.state_dict().values()) for one in (model, held)]
    assert size[1] < 0.27 * size[0]
