"""The walk through the model: what each part says is what the model computes, by the formulas, for all its options."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_trace import SOURCE, TARGET, build

from manyheads import inspect
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.flow import CELLS, flow
from manyheads.inspection.switches import Head, switched_off
from manyheads.inspection.trace import trace
from manyheads.nn.positions import sinusoids

CHANGES = {
    "pre": {"norm": "pre"},
    "post": {"norm": "post"},
    "rms, swiglu": {"norm": "pre", "normaliser": "rms", "activation": "swiglu"},
    "rotary, grouped, gelu": {"norm": "pre", "positions": "rotary", "kv_heads": 2, "activation": "gelu"},
    "learned, post, silu": {"norm": "post", "positions": "learned", "max_length": 32, "activation": "silu"},
    "cross same": {"norm": "pre", "cross": "same"},
    "narrow": {"width": 8, "heads": 2, "feedforward": 12},
}
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


@pytest.fixture(params=CHANGES.values(), ids=CHANGES.keys())
def model(request):
    return build(request.param)


def sublayers(model, side):
    names = ["attention", "feedforward"] if side == "source" else ["attention", "cross", "feedforward"]
    return [f"{layer}/{name}/" for layer in range(model.config.layers) for name in names]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_vector_goes_on_as_it_was_handed_on(model):
    found = flow(model, SOURCE, TARGET)
    assert model.training  # as it was handed in
    for side, parts in (("source", found.source), ("target", found.target)):
        before = parts["embedded"]
        for name in sublayers(model, side):
            close(parts[f"{name}x"], before)
            close(parts[f"{name}sum"][:, 1:], parts[f"{name}x"][:, 1:] + parts[f"{name}y"][:, 1:])
            before = parts[f"{name}{'sum' if model.config.norm == 'pre' else 'normed'}"]
        assert ("last/normed" in parts) == (model.config.norm == "pre")
        if model.config.norm == "pre":
            close(parts["last/x"], before)


def test_words_and_positions_are_added(model):
    found, width = flow(model, SOURCE, TARGET), model.config.width
    words = model.words(torch.tensor(SOURCE)).detach().numpy()
    close(found.source["words"][:, 1 : 1 + width], words[:, :CELLS])
    close(found.source["words"][:, 0], np.linalg.norm(words, axis=1))
    close(found.source["scaled"], found.source["words"] * math.sqrt(width))
    if model.config.positions == "sinusoidal":
        places = sinusoids(torch.arange(len(TARGET)), width).numpy()
        close(found.target["position"][:, 1 : 1 + width], places[:, :CELLS])
    elif model.config.positions == "rotary":
        assert np.abs(found.target["position"]).max() == 0


def test_the_norm_is_its_formula(model):
    """By a hand-made norm of all numbers, which are those of the model's own modules on the way."""
    block, given = model.encoder.blocks[0].around_attention, []
    hook = block.norm.register_forward_hook(lambda _, args, out: given.append(args[0]))
    found = flow(model, SOURCE, TARGET)
    hook.remove()
    x, norm = given[0][0].detach().double(), block.norm
    centred = x - x.mean(-1, keepdim=True) if model.config.normaliser == "layer" else x
    expected = centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight
    expected = expected + norm.bias if model.config.normaliser == "layer" else expected
    close(found.source["0/attention/normed"][:, 0], expected.norm(dim=-1).detach())
    first = min(CELLS, model.config.width)
    close(found.source["0/attention/normed"][:, 1 : 1 + first], expected[:, :first].detach())


def test_the_hidden_layer_is_activated(model):
    parts = flow(model, SOURCE, TARGET).target
    up, hidden = (torch.from_numpy(parts[f"1/feedforward/{part}"][:, 1:]) for part in ("up", "hidden"))
    if model.config.activation == "swiglu":
        gate = torch.from_numpy(parts["1/feedforward/gate"][:, 1:])
        close(hidden, F.silu(up) * gate)
    else:
        close(hidden, ACTIVATIONS[model.config.activation](up))
    active = parts["1/feedforward/active"][:, 0]
    assert ((active > 0) & (active <= model.config.feedforward)).all()
    if model.config.activation == "relu":
        assert (up < 0).any()  # noted before it was changed in place


def test_logits_are_those_of_the_trace(model):
    found, passed = flow(model, SOURCE, TARGET), trace(model, SOURCE, TARGET)
    close(found.log_sums, passed.logits.double().logsumexp(-1))


def test_heads_hand_on_what_the_weights_say(model):
    """Σ w·v of all heads, joined and projected, is the y of the walk."""
    found, passed = flow(model, SOURCE, TARGET), trace(model, SOURCE, TARGET)
    for kind, parts, name in (("encoder", found.source, "attention"), ("cross", found.target, "cross")):
        attended = getattr(passed, kind)[1]
        inside = attended.inside()
        v = inside.v.repeat_interleave(model.config.heads // len(inside.v), 0)
        y = attended.attention.output((inside.weights @ v).transpose(0, 1).flatten(1)).detach()
        close(parts[f"1/{name}/y"][:, 0], y.norm(dim=-1))


def test_without_a_head_it_is_the_walk_without_it():
    model = build({})
    with switched_off(model, [Head("encoder", 0, 1)]):
        without = flow(model, SOURCE, TARGET)
    whole = flow(model, SOURCE, TARGET)
    assert np.array_equal(whole.source["0/attention/x"], without.source["0/attention/x"])
    assert np.abs(whole.source["0/attention/y"] - without.source["0/attention/y"]).max() > 1e-3


def test_a_page_has_it_where_there_is_room():
    found = inspect("de-en", "Ein Hund schläft.")
    whole, small = make_bundle(found), make_bundle(found, 20_000)
    assert whole.planes["flow/source"].shape == (len(whole.header["flow"]["source"]), 5, 1 + CELLS)
    assert len(whole.header["flow"]["log_sums"]) == len(found.choices)
    assert small.header["flow"] is None
    assert any("the numbers for the Flow view" in what for what in small.header["left_out"])
