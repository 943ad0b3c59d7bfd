"""Dropout, sum and norm as one kernel, and stacks made of it, against the plain ones. Without a GPU kernels are interpreted (conftest.py)."""

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from manyheads import Transformer, TransformerConfig
from manyheads.nn import Packed, add_norm
from manyheads.nn.blocks import Encoder, streams
from manyheads.nn.norms import make_norm
from manyheads.nn.stream import begin

pytestmark = pytest.mark.plain

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-5


def draw(*shape):
    return torch.randn(shape, device=DEVICE, requires_grad=True)


def seed(number):
    return torch.tensor(number, device=DEVICE)


def mask(rows, width, dropout, number):
    """What each number is multiplied by: seen by adding ones to zeros."""
    x, y = torch.zeros(rows, width, device=DEVICE), torch.ones(rows, width, device=DEVICE)
    weight = torch.ones(width, device=DEVICE)
    return add_norm.add_norm(x, y, weight, None, EPS, centred=False, dropout=dropout, seed=seed(number))[0]


def by_hand(x, y, weight, bias, centred):
    total = x + y
    middle = total.mean(-1, keepdim=True) if centred else 0
    scale = ((total - middle).square().mean(-1, keepdim=True) + EPS).rsqrt()
    normed = (total - middle) * scale * weight
    return total, normed if bias is None else normed + bias


@settings(max_examples=20)
@given(
    rows=st.integers(1, 40), width=st.sampled_from([1, 6, 64, 257]), programs=st.sampled_from([3, 4000]),
    centred=st.booleans(), biased=st.booleans(), dropout=st.sampled_from([0.0, 0.1, 0.7]), number=st.integers(0, 2**62),
)  # fmt: skip
def test_values_and_gradients_are_those_of_the_formula(rows, width, programs, centred, biased, dropout, number):
    torch.manual_seed(number)
    inputs = [draw(rows, width), draw(rows, width), draw(width), *([draw(width)] if biased else [])]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(add_norm, "FORWARD_PROGRAMS", programs)
        patch.setattr(add_norm, "BACKWARD_PROGRAMS", programs)
        options = {"centred": centred, "dropout": dropout, "seed": seed(number)}
        *ours, _ = add_norm.add_norm(*inputs[:3], inputs[3] if biased else None, EPS, **options)
        kept = mask(rows, width, dropout, number).double()
        expected = by_hand(exact[0], exact[1] * kept, exact[2], exact[3] if biased else None, centred)
        gradients = [torch.randn_like(t) for t in ours]
        changes = torch.autograd.grad(ours, inputs, gradients)
    wanted = torch.autograd.grad(expected, exact, [g.double() for g in gradients])
    for mine, other in zip((*ours, *changes), (*expected, *wanted), strict=True):
        tolerance = 1e-3 if width == 1 else 1e-5  # of one number the layer norm is 0, and its scale 1/√eps
        torch.testing.assert_close(
            mine.double(), other, rtol=tolerance, atol=tolerance * other.abs().max().item() + 1e-6
        )


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.75])
def test_a_mask_drops_its_share_and_keeps_the_mean(dropout):
    rows, width = 50, 384
    kept = mask(rows, width, dropout, 7)
    torch.testing.assert_close(kept[kept != 0], torch.full_like(kept[kept != 0], 1 / (1 - dropout)))
    error = (dropout * (1 - dropout) / kept.numel()) ** 0.5
    assert abs((kept == 0).double().mean() - dropout) < 4 * error


def test_neighbours_and_rows_and_seeds_are_independent():
    centred = [(mask(50, 384, 0.5, number) - 1).double() for number in (7, 8)]
    one, other = centred
    bound = 4 * one.numel() ** -0.5
    for lag in (1, 2, 3, 4, 32, 128):
        assert (one[:, lag:] * one[:, :-lag]).mean().abs() < bound
    for lag in (1, 2, 3, 4):
        assert (one[lag:] * one[:-lag]).mean().abs() < bound
    assert (one * other).mean().abs() < bound
    assert torch.equal(one, (mask(50, 384, 0.5, 7) - 1).double())


def test_the_gradient_passes_where_the_value_did():
    y = draw(9, 48)
    x, weight = torch.zeros(9, 48, device=DEVICE), torch.ones(48, device=DEVICE)
    total, _, _ = add_norm.add_norm(x, y, weight, None, EPS, centred=False, dropout=0.4, seed=seed(3))
    (change,) = torch.autograd.grad(total.sum(), y)  # nobody reads the norm
    assert torch.equal(change, mask(9, 48, 0.4, 3))


def test_autocast_is_obeyed_and_the_stream_stays_wide():
    x, y = draw(2, 3, 16), torch.randn(2, 3, 16, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    weight, bias = draw(16), draw(16)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        total, normed, after = add_norm.add_norm(x, y, weight, bias, EPS, centred=True, dropout=0.5, seed=seed(1))
    assert (total.dtype, normed.dtype, after.item()) == (torch.float32, torch.bfloat16, 2)
    changes = torch.autograd.grad((total, normed), (x, y, weight, bias), (total.detach(), normed.detach()))
    assert [c.dtype for c in changes] == [torch.float32, torch.bfloat16, torch.float32, torch.float32]
    assert changes[1].shape == y.shape


def learn(way, dropout=0.0, number=0, **options):
    """Logits and the gradients of all parameters: plain, as a stream, or as a stream of compiled blocks."""
    torch.manual_seed(0)
    shape = {"width": 24, "heads": 2, "layers": 2, "feedforward": 40, "norm": "pre", "dropout": dropout, **options}
    model = Transformer(TransformerConfig(**shape), 50).to(DEVICE)
    source, target = (
        Packed.from_lengths([5, 3], DEVICE),
        Packed.from_lengths(
            [
                4,
                6,
            ],
            DEVICE,
        ),
    )
    ids = torch.randint(1, 50, (18,), device=DEVICE)
    with streams(model) if way != "plain" else nullcontext():
        if way == "compiled":
            torch._dynamo.reset()
            for block in (*model.encoder.blocks, *model.decoder.blocks):
                block.compile(dynamic=False, fullgraph=True, backend="aot_eager")
        torch.manual_seed(number)
        logits = model(ids[:8], ids[8:], source, target)
        (logits * torch.linspace(-1, 1, logits.numel(), device=DEVICE).view_as(logits)).sum().backward()
    return logits.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_same_lesson(one, other):
    torch.testing.assert_close(one[0], other[0], rtol=1e-4, atol=1e-5)
    for name, gradient in one[1].items():
        assert other[1][name] is not None, name
        assert (gradient - other[1][name]).norm() <= 1e-4 * gradient.norm() + 1e-6, name


@pytest.mark.parametrize("normaliser", ["layer", "rms"])
@pytest.mark.parametrize("cross", ["last", "same"])
def test_a_stream_says_and_learns_what_the_plain_stack_does(normaliser, cross):
    options = {"normaliser": normaliser, "cross": cross}
    assert_same_lesson(learn("plain", **options), learn("stream", **options))


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_compiled_blocks_lose_no_gradient(dropout):
    """The output of a compiled block is that of an operator of ours, once as it is and once behind a sum."""
    stream = learn("stream", dropout)
    assert_same_lesson(stream, learn("compiled", dropout))
    if not dropout:
        assert_same_lesson(stream, learn("plain"))


def test_what_is_dropped_is_decided_by_the_default_generator():
    def seed_after(number):
        torch.manual_seed(number)
        return begin(torch.zeros(2, 8, device=DEVICE)).seed.item()

    assert seed_after(1) == seed_after(1) != seed_after(2)
    assert torch.equal(learn("stream", 0.3, number=1)[0], learn("stream", 0.3, number=1)[0])


@pytest.mark.parametrize("options", [{"norm": "post"}, {"drop_path": 0.5}], ids=str)
def test_stacks_that_cannot_are_left_alone(options):
    one, other = (learn(way, 0.2, **options) for way in ("plain", "stream"))
    assert torch.equal(one[0], other[0])


@pytest.mark.parametrize(("width", "dtype", "can"), [
    (8192, torch.float32, True), (8194, torch.float32, False), (8, torch.bfloat16, True), (8, torch.float64, False)
])  # fmt: skip
def test_rows_that_do_not_suit_the_kernel_are_left_to_pytorch(width, dtype, can):
    stack = Encoder([], make_norm("layer", width, EPS, inner=True)).to(DEVICE, dtype)
    with streams(stack):
        assert (stack.begin is begin) == can


def test_afterwards_a_stack_is_plain_again():
    model = Transformer(TransformerConfig(width=24, heads=2, layers=1, norm="pre"), 50)
    before = model.encoder.begin
    with streams(model):
        assert model.encoder.begin is not before
        assert model.decoder.begin is not before
    assert model.encoder.begin is model.decoder.begin is before
