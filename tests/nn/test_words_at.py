"""Words that vertices are asked about, held against all logits."""

import pytest
import torch

from manyheads.nn import words_at as module
from manyheads.nn.words_at import are_best, words_at


def drawn(dtype=torch.float64, device="cpu"):
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(3, 7, 16, generator=generator, dtype=torch.float64)
    table = torch.randn(50, 16, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 50, (3, 4), generator=generator)
    labels[0, 1] = labels[0, 2]  # a word that is said twice
    return states.to(device, dtype).requires_grad_(), table.to(device, dtype).requires_grad_(), labels.to(device)


def by_all_logits(states, table, labels):
    log_p = (states @ table.T).log_softmax(-1)
    return torch.stack([log_p[n, :, row].T for n, row in enumerate(labels)])


@pytest.mark.parametrize("few", [1, 150, 10_000], ids="logits at a time: {}".format)
def test_words_and_gradients_are_those_of_all_logits(few, monkeypatch):
    monkeypatch.setattr(module, "LOGITS", {"cpu": few, "cuda": few})
    states, table, labels = drawn()
    found, wanted = words_at(states, table, labels), by_all_logits(states, table, labels)
    torch.testing.assert_close(found, wanted)
    weights = torch.rand_like(wanted)
    ours = torch.autograd.grad((found * weights).sum(), (states, table))
    theirs = torch.autograd.grad((wanted * weights).sum(), (states, table))
    torch.testing.assert_close(ours, theirs)
    best = (states @ table.T).argmax(-1)
    asked = best.clone()
    asked[:, ::2] += 1
    assert torch.equal(are_best(states, table, asked % 50), asked == best)


def test_a_frozen_table_has_no_gradient():
    states, table, labels = drawn()
    wanted = torch.autograd.grad(words_at(states, table, labels).sum(), states)
    words_at(states, table.detach(), labels).sum().backward()
    torch.testing.assert_close(states.grad, *wanted)


def test_its_gradient_is_that_of_differences():
    torch.autograd.gradcheck(lambda states, table: words_at(states, table, drawn()[2]), drawn()[:2])


def test_under_autocast_only_products_are_rounded(device):
    states, table, labels = drawn(torch.float32, device)
    with torch.autocast(device.type, torch.bfloat16):
        found = words_at(states, table, labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, by_all_logits(states, table, labels), rtol=0.02, atol=0.1)
    found.sum().backward()
    assert states.grad.dtype == table.grad.dtype == torch.float32
    assert found.exp().sum() > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_nothing_waits_for_the_gpu():
    states, table, labels = drawn(torch.float32, "cuda")
    words_at(states, table, labels).sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        are_best(states[:, :4], table, labels)
        words_at(states, table, labels).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_gradient_of_its_gradient_is_refused():
    states, table, labels = drawn()
    (by_states,) = torch.autograd.grad(words_at(states, table, labels).sum(), states, retain_graph=True)
    assert not by_states.requires_grad
    with pytest.raises(RuntimeError, match="a sum over all words of a vocabulary has no second derivative"):
        torch.autograd.grad(words_at(states, table, labels).sum(), states, create_graph=True)
