"""Muon against its formula, with singular values instead of products."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import OptionError, Transformer, TransformerConfig
from manyheads.models.matrices import matrices_of
from manyheads.recipe import TrainConfig
from manyheads.training.muon import orthogonalise, orthogonalise_all
from manyheads.training.optimizer import build_optimizer, optimizer_tensors, restore_optimizer, update

WORDS = 11


def by_singular_values(matrix):
    """U·f(S)·Vᵀ, where f is the polynomial of Newton and Schulz, five times over, of the numbers themselves."""
    u, s, v = torch.linalg.svd(matrix.double(), full_matrices=False)
    s = s / matrix.double().norm()
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ torch.diag(s) @ v


def build(dtype=torch.float32, **options):
    torch.manual_seed(2)
    config = TransformerConfig(
        **{"width": 16, "layers": 1, "heads": 4, "feedforward": 40, "dropout": 0.0, "norm": "pre", **options}
    )
    return Transformer(config, WORDS).to(dtype)


def learn(model, optimizer, steps=2, rate=0.01, clip=0.0, bad=None):
    """Updates; in one of them, if it is said which, a gradient is not a number."""
    for step in range(steps):
        ids = torch.arange(1, 9).view(2, 4).to(model.words.weight.device) + step
        model(ids % WORDS, ids.flip(0) % WORDS).square().sum().backward()
        if step == bad:
            model.encoder.blocks[0].attention.input.weight.grad[3, 2] = float("nan")
        update(optimizer, list(model.parameters()), rate, clip)


def copies(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@settings(max_examples=40)
@given(st.integers(0, 9_999), st.integers(1, 4), st.integers(1, 9), st.integers(0, 20), st.floats(1e-6, 1e6))
def test_the_products_are_the_polynomial_of_the_singular_values(seed, count, rows, more, size):
    torch.manual_seed(seed)
    matrices = size * torch.randn(count, rows, rows + more, dtype=torch.float64)
    for matrix, result in zip(matrices, orthogonalise(matrices), strict=True):
        torch.testing.assert_close(result, by_singular_values(matrix), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shape", [(64, 64), (32, 128), (8, 9)])
def test_all_singular_values_come_near_1(device, shape):
    """So the result is U·Vᵀ as nearly as the method gives it: the polynomial ends between 0.68 and 1.14."""
    torch.manual_seed(0)
    spectrum = torch.logspace(0, -1.5, min(shape))
    u, _, v = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    matrix = (u * spectrum @ v).to(device)
    result = orthogonalise(matrix[None])[0]
    values = torch.linalg.svdvals(result.float())
    slack = 0.02 if device.type == "cuda" else 0.0
    assert 0.67 - slack <= values.min()
    assert values.max() <= 1.15 + slack
    assert torch.linalg.matrix_norm(result.cpu() - u @ v, 2) <= 0.33 + slack


def test_matrices_lying_and_standing_come_back_as_they_were():
    shapes = [(4, 6), (6, 4), (5, 5), (4, 6), (1, 7), (6, 4)]
    matrices = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    for matrix, result in zip(matrices, orthogonalise_all(matrices), strict=True):
        torch.testing.assert_close(result, by_singular_values(matrix))


def test_nothing_to_learn_moves_nothing():
    assert torch.equal(orthogonalise(torch.zeros(2, 3, 4)), torch.zeros(2, 3, 4))


@pytest.mark.parametrize("options", [{}, {"kv_heads": 2, "activation": "swiglu", "tie": "none", "bias": True}])
def test_two_steps_are_the_formula_and_the_rest_is_adamw_s(options):
    """Queries, keys, values and the two inputs of a gate are maps of their own."""
    model, peer = build(torch.float64, **options), build(torch.float64, **options)
    start = copies(model)
    optimizer = build_optimizer(model, 0.3, 0.5, "muon")
    adamw = build_optimizer(peer, 0.3, 0.5)
    names = {parameter: name for name, parameter in model.named_parameters()}
    rows = {names[matrix]: rows for module in model.modules() for matrix, rows in matrices_of(module)}
    assert len(rows) == 4 + 6
    ids = torch.arange(1, 9).view(2, 4)
    means = {name: torch.zeros_like(start[name]) for name in rows}
    for _ in range(2):
        for one in (model, peer):
            one(ids, ids.flip(0)).square().sum().backward()
        gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
        for name, parameter in peer.named_parameters():
            parameter.grad = gradients[name].clone()
        update(optimizer, list(model.parameters()), 0.01, 0.0)
        update(adamw, list(peer.parameters()), 0.01, 0.0)
        for name in rows:
            means[name] = 0.95 * means[name] + 0.05 * gradients[name]
            ahead = 0.95 * means[name] + 0.05 * gradients[name]
            for before, part in zip(start[name].split(rows[name]), ahead.split(rows[name]), strict=True):
                scale = 0.2 * max(part.shape) ** 0.5
                before.copy_(before - 0.01 * 0.5 * before - 0.01 * scale * by_singular_values(part))
    theirs = dict(peer.named_parameters())
    for name, parameter in model.named_parameters():
        expected = start[name] if name in rows else theirs[name]
        torch.testing.assert_close(parameter, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_an_update_is_as_large_as_adamw_s(kind):
    """Entries of 0.2 times the rate, whatever the shape: AdamW's are that, too, where gradients are mostly noise."""
    model = build(width=64, feedforward=256)
    optimizer = build_optimizer(model, 0.3, 0.0, kind)
    for _ in range(60):
        before = copies(model)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        update(optimizer, list(model.parameters()), 0.01, 0.0)
    for module in model.modules():
        for matrix, _ in matrices_of(module):
            (name,) = (name for name, parameter in model.named_parameters() if parameter is matrix)
            assert (matrix - before[name]).square().mean().sqrt().item() == pytest.approx(0.002, rel=0.3)


def test_decay_is_adamw_s():
    """With no gradient, all that is left of a step is W ← (1 − rate·decay)·W."""
    moved = []
    for kind in ("adamw", "muon"):
        model = build()
        optimizer = build_optimizer(model, 0.3, 0.5, kind)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        update(optimizer, list(model.parameters()), 0.01, 0.0)
        moved.append(copies(model))
    for name, tensor in moved[0].items():
        torch.testing.assert_close(tensor, moved[1][name], rtol=1e-6, atol=0)


def test_a_gradient_that_is_not_finite_changes_nothing(device):
    model = build().to(device)
    optimizer = build_optimizer(model, 0.3, 0.5, "muon")
    learn(model, optimizer)
    weights, state = copies(model), {k: t.clone() for k, t in optimizer_tensors(optimizer, model).items()}
    learn(model, optimizer, steps=1, bad=0)
    assert all(torch.equal(weights[name], p) for name, p in model.named_parameters())
    now = optimizer_tensors(optimizer, model)
    assert now.keys() == state.keys()
    assert all(torch.equal(state[key], now[key]) for key in state)


def test_a_bad_first_step_leaves_no_trace():
    model, peer = build(), build()
    for one, bad in ((model, 0), (peer, None)):
        optimizer = build_optimizer(one, 0.3, 0.5, "muon")
        if bad == 0:
            learn(one, optimizer, steps=1, bad=0)
        learn(one, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), peer.parameters(), strict=True))


def test_saved_by_name_and_restored_it_goes_on_as_if_nothing_had_been():
    model = build()
    optimizer = build_optimizer(model, 0.3, 0.5, "muon")
    learn(model, optimizer)
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, model).items()}
    assert "momentum:encoder.blocks.0.attention.input.weight" in saved
    assert "exp_avg:words.weight" in saved
    assert "exp_avg:encoder.blocks.0.attention.input.weight" not in saved
    twin = copy.deepcopy(model)
    other = build_optimizer(twin, 0.3, 0.5, "muon")
    restore_optimizer(other, twin, saved)
    learn(model, optimizer)
    learn(twin, other)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_what_is_frozen_stays():
    model = build()
    frozen = model.encoder.blocks[0].feedforward.up.weight.requires_grad_(False)
    before = frozen.clone()
    learn(model, build_optimizer(model, 0.3, 0.5, "muon"))
    assert torch.equal(frozen, before)


def test_matrices_that_are_shared_out_are_refused():
    with pytest.raises(OptionError, match="Muon needs whole matrices, got optimizer = 'muon' and shard = true"):
        TrainConfig(optimizer="muon", shard=True)
