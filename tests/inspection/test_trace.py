"""What is shown is what the model does: the same logits, the same weights, whichever way it is run."""

import numpy as np
import pytest
import torch

from manyheads import Transformer, TransformerConfig
from manyheads.inspection.trace import KINDS, trace
from manyheads.text.tokenizer import BEGIN

WORDS = 40
CHANGES = {
    "plain": {},
    "window": {"window": (2, 1)},
    "grouped": {"kv_heads": 2},
    "rotary, normed": {"positions": "rotary", "qk_norm": True},
    "additive": {"score": "additive"},
    "cross same": {"cross": "same"},
    "post, learned": {"norm": "post", "positions": "learned", "max_length": 32},
    "one kv head, bias": {"kv_heads": 1, "bias": True, "key_width": 4, "value_width": 6},
}
SOURCE, TARGET = [5, 9, 17, 4, 22, 31, 8, 2], [BEGIN, 7, 30, 12, 12, 5]


def build(changes, words=WORDS):
    shape = {"width": 32, "layers": 2, "heads": 4, "feedforward": 64, "dropout": 0.3, "tie": "none"}
    model = Transformer(TransformerConfig(**(shape | changes)), words)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model  # in training, as it may be handed in


@pytest.fixture(params=CHANGES.values(), ids=CHANGES.keys())
def model(request):
    return build(request.param)


def rows(ids):
    return torch.tensor([ids])


def test_logits_are_those_of_the_fast_path(model):
    found = trace(model, SOURCE, TARGET)
    assert model.training
    with torch.no_grad():
        fast = model.eval()(rows(SOURCE), rows(TARGET))[0]
    assert (found.logits - fast).abs().max() <= 1e-5
    assert torch.equal(found.logits.argmax(-1), fast.argmax(-1))


def test_rows_sum_to_one_and_what_may_not_be_seen_is_exactly_0(model):
    found = trace(model, SOURCE, TARGET)
    for kind in KINDS:
        for attended in getattr(found, kind):
            seen = attended.inside().seen
            assert (attended.weights.sum(-1) - 1).abs().max() <= 1e-5
            assert (attended.weights[:, ~seen] == 0).all()
            assert (attended.weights[:, seen] > 0).all()
    future = torch.ones(len(TARGET), len(TARGET), dtype=torch.bool).triu(1)
    assert all((attended.weights[:, future] == 0).all() for attended in found.decoder)


def test_a_window_is_seen_as_one():
    for attended in trace(build({"window": (2, 1)}), SOURCE, TARGET).encoder:
        distance = torch.arange(len(SOURCE)) - torch.arange(len(SOURCE))[:, None]
        assert torch.equal(attended.inside().seen, (distance >= -2) & (distance <= 1))


def test_what_weights_are_made_of_makes_them(model):
    found = trace(model, SOURCE, TARGET)
    for kind in KINDS:
        for attended in getattr(found, kind):
            assert torch.equal(attended.inside().weights, attended.weights)


@torch.no_grad()
def test_queries_keys_and_scores_by_hand():
    model = build({"kv_heads": 2})
    found = trace(model, SOURCE, TARGET)
    attention, given = found.cross[1].attention, found.cross[1].given
    inside = found.cross[1].inside()
    x, memory, heads, width = given["x"][0], given["memory"][0], 4, 8
    q, k, v = (
        side @ part.T
        for side, part in zip((x, memory, memory), attention.input.weight.split([32, 16, 16]), strict=True)
    )
    for head in range(heads):
        shared = slice(head // 2 * width, (head // 2 + 1) * width)
        own = q[:, head * width : (head + 1) * width]
        assert torch.allclose(inside.q[head], own, atol=1e-6)
        assert torch.allclose(inside.k[head // 2], k[:, shared], atol=1e-6)
        assert torch.allclose(inside.v[head // 2], v[:, shared], atol=1e-6)
        assert torch.allclose(inside.scores[head], own @ k[:, shared].T / np.sqrt(width), atol=1e-5)


@torch.no_grad()
def test_one_pass_looks_where_decoding_step_by_step_looked(model):
    found = trace(model, SOURCE, TARGET)
    model.eval()
    cache = model.start(model.encode(rows(SOURCE)))
    for step, token in enumerate(TARGET):
        weights, cross = [], []
        logits = model.step(rows([token]), cache, weights, cross)
        assert (logits[0, 0] - found.logits[step]).abs().max() <= 1e-5
        for layer in range(2):
            assert (weights[layer][0, :, 0] - found.decoder[layer].weights[:, step, : step + 1]).abs().max() <= 1e-5
            assert (cross[layer][0, :, 0] - found.cross[layer].weights[:, step]).abs().max() <= 1e-5


@torch.no_grad()
def test_a_sentence_in_a_padded_batch_looks_where_it_looks_alone(model):
    found = trace(model, SOURCE, TARGET)
    others = [13, 2], [BEGIN, 6]
    source, target = (
        torch.tensor([ids, other + [0] * (len(ids) - len(other))])
        for ids, other in zip(([*SOURCE, 0, 0], TARGET), others, strict=True)
    )
    encoder, decoder, cross = [], [], []
    model.eval().decode(target, model.encode(source, None, encoder), None, decoder, cross)
    for kind, layers in zip(KINDS, (encoder, decoder, cross), strict=True):
        for attended, padded in zip(getattr(found, kind), layers, strict=True):
            queries, keys = attended.weights.shape[1:]
            assert (padded[0, :, :queries, :keys] - attended.weights).abs().max() <= 1e-5
            assert (padded[0, :, :queries, keys:] == 0).all()


def test_nothing_stays_in_the_model():
    model = build({})
    trace(model, SOURCE, TARGET)
    assert not any(module._forward_pre_hooks for module in model.modules())
