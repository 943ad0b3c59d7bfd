"""Beam search against greedy search, against all sequences there are, and against the model's own probabilities."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import Transformer, TransformerConfig
from manyheads.decoding.beam import beam_search
from manyheads.decoding.greedy import decode_one_by_one
from manyheads.decoding.hypothesis import length_penalty
from manyheads.text.tokenizer import BEGIN, END, PADDING

FIRST = END + 1
seeds = st.integers(0, 9_999)
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.0])
sentences = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 10)), min_size=1, max_size=4)


def build(seed, words):
    """A model that was never trained, loud enough to have opinions."""
    torch.manual_seed(seed)
    config = TransformerConfig(width=16, layers=1, heads=2, feedforward=32, dropout=0.0, tie="none", norm="pre")
    model = Transformer(config, words).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def draw_batch(words, lengths):
    rows = [torch.randint(END, words, (length,)) for length in lengths]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


def forced(model, source, ids, finished):
    """log P of the ids, and of the end if there is one, in one pass."""
    labels = torch.tensor([*ids, END] if finished else ids)
    log_p = model(source[None], torch.tensor([[BEGIN, *labels[:-1]]]))[0].log_softmax(-1)
    return log_p.gather(1, labels[:, None]).sum().item()


def count_rows(model):
    """How many rows each step is given, from now on."""
    rows, step = [], model.step
    model.step = lambda tokens, cache: rows.append(len(tokens)) or step(tokens, cache)
    return rows


@settings(max_examples=40)
@given(seeds, sentences, alphas)
@torch.no_grad()
def test_a_beam_of_one_is_greedy_search(seed, sentences, alpha):
    model = build(seed, 9)
    lengths, limits = zip(*sentences, strict=True)
    source = draw_batch(9, lengths)
    greedy = decode_one_by_one(model, source, limits, alpha)
    for one, (found,) in zip(greedy, beam_search(model, source, limits, beam=1, alpha=alpha), strict=True):
        assert (found.ids, found.finished) == (one.ids, one.finished)
        assert found.log_probability == pytest.approx(one.log_probability, abs=1e-4)
        assert found.score == pytest.approx(one.score, abs=1e-4)


@settings(max_examples=30)
@given(seeds, alphas, st.sampled_from([(1, 4), (2, 4), (3, 3), (4, 2)]))
@torch.no_grad()
def test_a_beam_with_room_for_all_is_exhaustive_search(seed, alpha, size):
    words, limit = size
    model = build(seed, FIRST + words)
    source = draw_batch(FIRST + words, [5])
    spelt = [ids for n in range(limit) for ids in product(range(FIRST, FIRST + words), repeat=n)]
    expected = {
        ids: forced(model, source[0], ids, finished=True) / length_penalty(len(ids) + 1, alpha) for ids in spelt
    }
    beam = max(len(spelt), words ** (limit - 1) * (words + 1))  # the hypotheses, and what is compared at a step
    (found,) = beam_search(model, source, [limit], beam=beam, alpha=alpha)
    assert {tuple(h.ids): h.score for h in found} == pytest.approx(expected, abs=1e-4)
    assert all(h.finished for h in found)
    assert found[0].score == pytest.approx(max(expected.values()), abs=1e-4)


@settings(max_examples=30)
@given(seeds, sentences, alphas, st.integers(1, 7), st.integers(FIRST, 9))
@torch.no_grad()
def test_hypotheses_are_sorted_distinct_bounded_and_as_likely_as_they_say(seed, sentences, alpha, beam, words):
    """… and there always is one. A beam may be larger than the vocabulary."""
    model = build(seed, words)
    lengths, limits = zip(*sentences, strict=True)
    source = draw_batch(words, lengths)
    for n, found in enumerate(beam_search(model, source, limits, beam=beam, alpha=alpha)):
        assert 1 <= len(found) <= beam
        assert len({tuple(h.ids) for h in found}) == len(found)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for h in found:
            assert all(word > END for word in h.ids)
            assert len(h.ids) + h.finished <= limits[n] if h.finished else len(h.ids) == limits[n]
            assert h.log_probability == pytest.approx(forced(model, source[n], h.ids, h.finished), abs=1e-4)
            penalty = length_penalty(len(h.ids) + h.finished, alpha)
            assert h.score == pytest.approx(h.log_probability / penalty, abs=1e-6)


@torch.no_grad()
def test_a_sentence_alone_is_the_same_in_a_batch():
    different = []
    for seed in range(15):
        model = build(seed, 9)
        source, limits = draw_batch(9, [7, 1, 4, 5]), [9, 10, 3, 10]
        together = beam_search(model, source, limits, beam=3, alpha=0.6)
        for row, limit, found in zip(source, limits, together, strict=True):
            (alone,) = beam_search(model, row[None, row != PADDING], [limit], beam=3, alpha=0.6)
            assert [h.score for h in found] == pytest.approx([h.score for h in alone], abs=1e-4)
            if [h.ids for h in found] != [h.ids for h in alone]:
                different.append((seed, limit))
    assert len(different) <= 1, "of 60, if two hypotheses are equal to 1e-4"


@torch.no_grad()
def test_sentences_that_are_done_leave_the_batch():
    model = build(0, 9)
    rows = count_rows(model)
    beam_search(model, draw_batch(9, [4, 4, 4, 4]), [1, 3, 3, 6], beam=5, alpha=0.0)
    assert rows[:2] == [20, 15]
    assert all(n <= 5 for n in rows[3:])
    assert len(rows) <= 6


@pytest.mark.parametrize("beam", [1, 2, 4, 20])
@torch.no_grad()
def test_one_token_is_the_end_or_a_word(beam):
    """The end if it is among the best; else as many words as the beam is wide."""
    kinds = set()
    for seed in range(20):
        model = build(seed, 9)
        source = draw_batch(9, [5])
        log_p = model(source, torch.tensor([[BEGIN]]))[0, 0].log_softmax(-1)
        log_p[[PADDING, BEGIN]] = -torch.inf
        best = log_p.topk(min(beam, 7)).indices.tolist()
        (found,) = beam_search(model, source, [1], beam=beam, alpha=1.0)
        expected = [[]] if END in best else [[word] for word in best]
        assert [h.ids for h in found] == expected
        assert all(h.finished == (END in best) for h in found)
        kinds.add(END in best)
    assert kinds == ({True, False} if beam < 7 else {True})


@torch.no_grad()
def test_a_search_without_beginnings_left_is_over():
    """Where nothing can be said but the end, one step is enough, however wide the beam and far the bound."""
    model = build(0, FIRST)
    rows = count_rows(model)
    found = beam_search(model, draw_batch(FIRST, [2, 3]), [50, 50], beam=4, alpha=0.6)
    assert [[h.ids for h in one] for one in found] == [[[]], [[]]]
    assert rows == [8]


@torch.no_grad()
def test_a_sentence_is_done_when_nothing_better_can_come():
    """An end that is nearly certain: a full beam of hypotheses is found in a few steps, not at the bound."""
    model = build(0, 9)
    step = model.step
    model.step = lambda tokens, cache: step(tokens, cache) + 20 * torch.eye(9)[END]
    rows = count_rows(model)
    (found,) = beam_search(model, draw_batch(9, [5]), [50], beam=3, alpha=0.0)
    assert found[0].ids == []
    assert [len(h.ids) for h in found[1:]] == [1, 1]
    assert len(rows) <= 3
