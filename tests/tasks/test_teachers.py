"""What a student learns from teachers, against the formula, written out; padded, packed and fused alike."""

from dataclasses import replace

import pytest
import torch

from manyheads import Transformer, TransformerConfig
from manyheads.recipe import TrainConfig
from manyheads.tasks import consistency
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.pairs import PairBatch
from manyheads.tasks.teachers import Teachers
from tasks.test_consistency import WORDS, build, draw_batch
from tasks.test_pairs import both
from tasks.test_pairs import model_of as student_of_packs

WAYS = {"plain": TrainConfig(), "simcut": TrainConfig(simcut=3.0, cut=0.3), "rdrop": TrainConfig(rdrop=5.0)}


def teacher(seed, width=8, words=WORDS, **options):
    torch.manual_seed(seed)
    shape = {"width": width, "layers": 1, "heads": 2, "feedforward": 16, "dropout": 0.5, "norm": "pre", **options}
    model = Transformer(TransformerConfig(**shape), words).double().eval().requires_grad_(False)
    model.output_words.mul_(4)  # that of who has learnt something
    return model


def taught(config, teachers, share):
    return replace(choose_loss(config), teachers=Teachers(teachers, share))


def by_hand(model, teachers, batch, share, smoothing):
    """−Σ t · log p, token by token and word by word, t being the smoothed label but for the teachers' share."""
    log_p = model(*batch.inputs).log_softmax(-1).tolist()
    said = [one(*batch.inputs).softmax(-1).tolist() for one in teachers]
    total = 0.0
    for row, labels in enumerate(batch.labels.tolist()):
        for place, label in enumerate(labels):
            if label:
                for word in range(WORDS):
                    true = (1 - smoothing) * (word == label) + smoothing / WORDS
                    mean = sum(one[row][place][word] for one in said) / len(said)
                    total -= ((1 - share) * true + share * mean) * log_p[row][place][word]
    return total


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("count", [1, 3])
def test_it_is_its_formula(share, count):
    model, batch = build(), PairBatch(*draw_batch())
    teachers = [teacher(seed, width=8 * (seed + 1)) for seed in range(count)]
    loss = taught(TrainConfig(smoothing=0.2), teachers, share)(model, batch)
    assert loss.item() == pytest.approx(by_hand(model, teachers, batch, share, 0.2), rel=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_without_a_share_it_is_the_loss_without_teachers(way):
    model, batch, losses = build(dropout=0.2), PairBatch(*draw_batch()), []
    for loss in (choose_loss(WAYS[way]), taught(WAYS[way], [teacher(1)], 0.0)):
        torch.manual_seed(5)
        losses.append(loss(model, batch))
    torch.testing.assert_close(*losses, rtol=1e-12, atol=0)


@pytest.mark.parametrize("way", WAYS)
def test_who_says_what_its_teacher_says_has_nothing_to_learn(way):
    """Alone among all that it could say, what the teacher finds likely costs least. (Nothing is cut here: who reads holes says something else.)"""
    model, batch = build(dropout=0.0), PairBatch(*draw_batch())
    teachers = [build().eval().requires_grad_(False)]
    teachers[0].load_state_dict(model.state_dict())
    loss = taught(replace(WAYS[way], cut=0.0), teachers, 1.0)
    loss(model, batch).backward()
    assert max(p.grad.abs().max() for p in model.parameters()) < 1e-12
    own = choose_loss(replace(WAYS[way], cut=0.0))
    assert max(g.abs().max() for g in torch.autograd.grad(own(model, batch), list(model.parameters()))) > 1e-3


def test_nothing_is_learnt_about_teachers():
    model, batch, one = build(dropout=0.3), PairBatch(*draw_batch()), teacher(1).requires_grad_()
    taught(WAYS["rdrop"], [one], 0.5)(model, batch).backward()
    assert all(p.grad is None for p in one.parameters())
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.plain
@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernel is interpreted here; tests/gpu has it as it is")
def test_a_bias_of_every_word_is_part_of_what_is_said(monkeypatch):
    """Of encoders, which are asked for hidden words."""
    pytest.importorskip("triton")
    from tasks.test_mask import TRAIN, batches, model_of

    student, other = model_of(), model_of(width=16, layers=1).requires_grad_(False)
    loss = taught(TRAIN, [other], 0.7)
    padded, packed = batches()
    wanted = loss(student, padded)
    monkeypatch.setattr(consistency, "vocabulary_loss_applies", lambda states: True)
    fused = loss.fused(replace(consistency.OF_TEXTS, biased=True))
    torch.testing.assert_close(fused(student, packed), wanted, rtol=1e-4, atol=1e-4)
    other.output_bias.zero_()
    assert (fused(student, packed) - wanted).abs() > 0.1


@pytest.mark.parametrize("way", ["plain", "rdrop"])
def test_packed_it_is_what_it_is_padded(way):
    padded, packed = both([(3, 4), (5, 2), (1, 1)])
    model = student_of_packs()
    loss = taught(WAYS[way], [teacher(seed, words=model.words.num_embeddings) for seed in (1, 2)], 0.6)
    torch.testing.assert_close(loss(model, packed), loss(model, padded))


@pytest.mark.plain
@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernel is interpreted here; tests/gpu has it as it is")
@pytest.mark.parametrize("way", WAYS)
def test_fused_it_is_the_same(way, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(consistency, "vocabulary_loss_applies", lambda states: True)  # its kernel is interpreted here
    _, packed = both([(3, 4), (5, 2), (1, 1)])
    model = student_of_packs().float()
    teachers = [teacher(seed, width=8 * seed, words=model.words.num_embeddings).float() for seed in (1, 2)]
    loss, found = taught(WAYS[way], teachers, 0.6), []
    for one in (loss, loss.fused()):
        torch.manual_seed(5)
        value = one(model, packed)
        found.append([value, *torch.autograd.grad(value, list(model.parameters()))])
    for plain, fused in zip(*found, strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-5)
