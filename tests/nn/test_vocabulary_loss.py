"""The loss over a vocabulary and its gradients against the formulas, differentiated in float64. Without a GPU its kernel is
interpreted (conftest.py)."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from manyheads.nn import vocabulary_loss as module
from manyheads.nn.vocabulary_loss import (
    Hints,
    Terms,
    Voice,
    tiles,
    tokens_at_once,
    vocabulary_loss,
    vocabulary_loss_applies,
)

pytestmark = pytest.mark.plain

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
KINDS = {
    "plain": Terms(),
    "simcut": Terms(pq=3.0),
    "rdrop": Terms(p=0.5, q=0.5, pq=1.25, qp=1.25),
    "uneven": Terms(p=0.3, q=0.7, pq=0.4, qp=2.0),
}


def formula(logits, labels, smoothing, terms, hints=None):
    """Of (times, N, W) logits."""

    def entropy(one):
        true = F.cross_entropy(one, labels, ignore_index=0, label_smoothing=smoothing, reduction="sum")
        return true if hints is None else (1 - hints.share) * true + hints.share * of_teachers(one)

    def of_teachers(one):
        """−Σ r · log p, where r is the mean of what each finds likely."""
        said = [voice.states.double() @ voice.weight.double().T for voice in hints.voices]
        logits = [x if v.bias is None else x + v.bias.double() for x, v in zip(said, hints.voices, strict=True)]
        r = torch.stack([x.softmax(-1) for x in logits]).mean(0)
        return -(r * one.log_softmax(-1))[labels != 0].sum()

    def divergence(p, q):
        return (F.kl_div(q, p, log_target=True, reduction="none").sum(-1) * (labels != 0)).sum()

    if len(logits) == 1:
        return terms.p * entropy(logits[0])
    p, q = logits.log_softmax(-1)
    apart = terms.pq * divergence(p, q) + terms.qp * divergence(q, p)
    return terms.p * entropy(logits[0]) + terms.q * entropy(logits[1]) + apart


def draw(kind, tokens, words, width=8, size=1.0):
    """States, table and labels; some labels are padding."""
    times = 1 if kind == "plain" else 2
    x = size * torch.randn(times * tokens, width, device=DEVICE)
    labels = torch.randint(0, words, (tokens,), device=DEVICE)
    labels[::3] = 0
    return x.requires_grad_(), torch.randn(words, width, device=DEVICE, requires_grad=True), labels


def draw_hints(tokens, words, share, teachers, bias=False):
    """Of teachers of other widths."""
    sizes = [5 + n for n in range(teachers)]
    voices = [
        Voice(
            torch.randn(tokens, size, device=DEVICE),
            torch.randn(words, size, device=DEVICE, requires_grad=True),
            torch.randn(words, device=DEVICE) if bias else None,
        )
        for size in sizes
    ]
    return Hints(share, voices)


def exact(x, weight, labels, smoothing, terms, hints=None):
    """(loss, gradients) in float64."""
    x, weight = (t.detach().double().requires_grad_() for t in (x, weight))
    loss = formula((x @ weight.T).view(-1, len(labels), len(weight)), labels, smoothing, terms, hints)
    return loss.detach(), torch.autograd.grad(loss, (x, weight))


def assert_near(ours, theirs, tolerance):
    assert (ours.double() - theirs).norm() <= tolerance * theirs.norm() + 1e-6


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 9),
    st.integers(2, 90) | st.sampled_from([255, 256, 1024, 1281]),
    st.sampled_from([0.0, 0.1]),
    st.integers(1, 4),
    st.integers(0, 99),
)
def test_loss_and_gradients_are_those_of_the_formulas(kind, tokens, words, smoothing, shares, seed):
    """With any number of shares, the last of which may be smaller."""
    torch.manual_seed(seed)
    x, weight, labels = draw(kind, tokens, words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LOGITS", -(-4 * len(x) * (words + 15) // shares))
        loss = vocabulary_loss(x, weight, labels, smoothing, KINDS[kind])
        gradients = torch.autograd.grad(3 * loss, (x, weight))
    expected, exact_gradients = exact(x, weight, labels, smoothing, KINDS[kind])
    assert (loss.dtype, loss.shape) == (torch.float32, ())
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-4)
    for ours, theirs in zip(gradients, exact_gradients, strict=True):
        assert_near(ours, 3 * theirs, 1e-5)


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 9),
    st.integers(2, 90) | st.sampled_from([255, 256, 1024, 1281]),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(1, 3),
    st.booleans(),
    st.integers(1, 4),
    st.integers(0, 99),
)
def test_of_what_teachers_say_as_much_is_learnt_as_is_wanted(
    kind, tokens, words, smoothing, share, teachers, bias, parts, seed
):
    torch.manual_seed(seed)
    x, weight, labels = draw(kind, tokens, words)
    hints = draw_hints(tokens, words, share, teachers, bias)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LOGITS", -(-(4 * len(x) + module.HINTED * tokens) * (words + 15) // parts))
        loss = vocabulary_loss(x, weight, labels, smoothing, KINDS[kind], hints=hints)
        theirs = hints.voices[0].weight
        *gradients, of_theirs = torch.autograd.grad(loss, (x, weight, theirs), allow_unused=True)
    expected, exact_gradients = exact(x, weight, labels, smoothing, KINDS[kind], hints)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-4)
    for ours, theirs in zip(gradients, exact_gradients, strict=True):
        assert_near(ours, theirs, 1e-5)
    assert of_theirs is None


@pytest.mark.parametrize("kind", KINDS)
def test_hints_of_no_share_change_nothing(kind):
    x, weight, labels = draw(kind, 7, 60)
    plain, hinted = (
        vocabulary_loss(x, weight, labels, 0.1, KINDS[kind], hints=hints) for hints in (None, draw_hints(7, 60, 0.0, 2))
    )
    assert torch.equal(plain, hinted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shares", [1, 3])
def test_a_bias_is_a_column_more_of_the_table(kind, shares, monkeypatch):
    x, weight, labels = draw(kind, 7, 37)
    bias = torch.randn(37, device=DEVICE, requires_grad=True)
    monkeypatch.setattr(module, "LOGITS", -(-4 * len(x) * 48 // shares))
    loss = vocabulary_loss(x, weight, labels, 0.1, KINDS[kind], bias=bias)
    gradients = torch.autograd.grad(loss, (x, weight, bias))
    wider = torch.cat([x, torch.ones_like(x[:, :1])], 1), torch.cat([weight, bias[:, None]], 1)
    expected, (dx, dw) = exact(*wider, labels, 0.1, KINDS[kind])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for ours, theirs in zip(gradients, (dx[:, :-1], dw[:, :-1], dw[:, -1]), strict=True):
        assert ours.shape == theirs.shape
        assert_near(ours, theirs, 1e-5)


@pytest.mark.parametrize(("kind", "words"), [("plain", 10_001), ("plain", 41_000), ("rdrop", 5_003)])
def test_large_vocabularies(kind, words):
    """Rows that registers hold, and rows that are read again: more than one tile of each."""
    x, weight, labels = draw(kind, 2, words)
    labels[:] = torch.tensor([words - 1, 5])
    loss = vocabulary_loss(x, weight, labels, 0.1, KINDS[kind])
    expected, theirs = exact(x, weight, labels, 0.1, KINDS[kind])
    assert tiles(words, len(x) // 2)["BLOCK"] < words
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, other in zip(torch.autograd.grad(loss, (x, weight)), theirs, strict=True):
        assert_near(mine, other, 1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_obeyed(kind, dtype):
    """Judged by the logits that there are: those in half precision. Gradients of logits are rounded to halves, sums are not."""
    x, weight, labels = draw(kind, 6, 77)
    with torch.autocast(DEVICE.type, dtype):
        loss = vocabulary_loss(x, weight, labels, 0.1, KINDS[kind])
    gradients = torch.autograd.grad(loss, (x, weight))
    halves = (x.detach().to(dtype), weight.detach().to(dtype))
    logits = (halves[0] @ halves[1].T).double().view(-1, 6, 77)
    assert loss.item() == pytest.approx(formula(logits, labels, 0.1, KINDS[kind]).item(), rel=1e-5)
    _, theirs = exact(*halves, labels, 0.1, KINDS[kind])
    for mine, other in zip(gradients, theirs, strict=True):
        assert mine.dtype == torch.float32
        assert_near(mine, other, 0.05 if dtype == torch.bfloat16 else 0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_logits_stay_finite(kind):
    x, weight, labels = draw(kind, 5, 50, size=100.0)
    loss = vocabulary_loss(x, weight, labels, 0.1, KINDS[kind])
    expected, theirs = exact(x, weight, labels, 0.1, KINDS[kind])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    for mine, other in zip(torch.autograd.grad(loss, (x, weight)), theirs, strict=True):
        assert_near(mine, other, 1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_costs_nothing_whatever_its_logits_are(kind):
    x, weight, labels = draw(kind, 6, 40)
    rows = (labels == 0).repeat(len(x) // 6)
    with torch.no_grad():
        x[rows] = 1e30
    gradient, _ = torch.autograd.grad(vocabulary_loss(x, weight, labels, 0.1, KINDS[kind]), (x, weight))
    assert torch.equal(gradient[rows], torch.zeros_like(gradient[rows]))
    assert gradient.isfinite().all()
    everything = vocabulary_loss(x, weight, torch.zeros_like(labels), 0.1, KINDS[kind])
    assert everything == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_finite_is_not_hidden(kind):
    """An update with such a gradient is left out: it must be seen."""
    x, weight, labels = draw(kind, 6, 40)
    with torch.no_grad():
        x[1] = float("nan")
    loss = vocabulary_loss(x, weight, labels, 0.1, KINDS[kind])
    assert loss.isnan()
    assert all(not g.isfinite().all() for g in torch.autograd.grad(loss, (x, weight)))


def test_equal_predictions_are_not_apart():
    x, weight, labels = draw("rdrop", 5, 33)
    with torch.no_grad():
        x[5:] = x[:5]
    assert vocabulary_loss(x, weight, labels, 0.1, Terms(p=0, pq=1.0, qp=1.0)) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_again(kind, monkeypatch):
    x, weight, labels = draw(kind, 9, 100)
    monkeypatch.setattr(module, "LOGITS", 4 * 4 * len(x) // 9 * 100)
    runs = []
    for _ in range(2):
        loss = vocabulary_loss(x, weight, labels, 0.1, KINDS[kind])
        runs.append([loss, *torch.autograd.grad(loss, (x, weight))])
    assert all(torch.equal(one, other) for one, other in zip(*runs, strict=True))


def test_shares_are_equal_and_no_larger_than_allowed():
    assert tokens_at_once(50_000, 20_000) == 25_000
    assert tokens_at_once(12_500, 20_000) == 12_500
    for tokens in (1, 7, 50_001):
        share = tokens_at_once(tokens, 20_000)
        assert share * 20_000 <= module.LOGITS or share == 1
    assert tokens_at_once(5, 2 * module.LOGITS) == 1


def test_it_applies_on_a_gpu_alone():
    assert not vocabulary_loss_applies(torch.ones(1))
