"""Greedy search against a loop without cache and batch, and what it does with sentences that are done."""

from math import inf

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from manyheads import Transformer, TransformerConfig
from manyheads.decoding.greedy import decode_one_by_one
from manyheads.decoding.hypothesis import Hypothesis, length_penalty
from manyheads.text.tokenizer import BEGIN, END, PADDING

WORDS = 9


def build(seed):
    """A model that was never trained, loud enough to have opinions."""
    torch.manual_seed(seed)
    config = TransformerConfig(width=16, layers=1, heads=2, feedforward=32, dropout=0.0, tie="none", norm="pre")
    model = Transformer(config, WORDS).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def draw_sources(lengths):
    return [torch.randint(END, WORDS, (length,)) for length in lengths]


def pad(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


def without_cache_and_batch(model, source, limit):
    """What greedy search is; and how near it came to writing something else."""
    ids, total, gap, finished = [], 0.0, inf, False
    while len(ids) < limit and not finished:
        log_p = model(source[None], torch.tensor([[BEGIN, *ids]]))[0, -1].log_softmax(-1)
        log_p[[PADDING, BEGIN]] = -inf
        (best, second), (word, _) = (values.tolist() for values in log_p.topk(2))
        total, gap, finished = total + best, min(gap, best - second), word == END
        ids += [word] * (not finished)
    return Hypothesis(ids, total, total, finished), gap


@settings(max_examples=25)
@given(
    seed=st.integers(0, 9_999),
    sentences=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 12)), min_size=1, max_size=6),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
)
@torch.no_grad()
def test_equals_a_loop_without_cache_and_batch(seed, sentences, alpha):
    model = build(seed)
    lengths, limits = zip(*sentences, strict=True)
    sources = draw_sources(lengths)
    expected, gaps = zip(*map(without_cache_and_batch, [model] * len(limits), sources, limits), strict=True)
    assume(min(gaps) > 1e-4)
    for found, one, limit in zip(decode_one_by_one(model, pad(sources), limits, alpha), expected, limits, strict=True):
        assert (found.ids, found.finished) == (one.ids, one.finished)
        assert len(found.ids) + found.finished <= limit
        assert found.log_probability == pytest.approx(one.log_probability, abs=1e-4)
        penalty = length_penalty(len(one.ids) + one.finished, alpha)
        assert found.score == pytest.approx(one.log_probability / penalty, abs=1e-4)


@torch.no_grad()
def test_untrained_models_are_a_real_test():
    """Outputs of many lengths, some finished and some not: else the test above would show little."""
    found = [decode_one_by_one(build(seed), pad(draw_sources([5, 3])), [12, 12])[0] for seed in range(40)]
    assert len({len(h.ids) for h in found}) > 4
    assert {h.finished for h in found} == {True, False}
    assert len({tuple(h.ids) for h in found}) > 20


# ── a model that writes what it is told ─────────────────────────────────────────────────────────────────────────────


class Script:
    """The cache: what each sentence is going to say."""

    def __init__(self, lines):
        self.lines, self.step = lines, 0

    def select(self, rows):
        self.lines = self.lines[rows]


class Scripted:
    """The source is what will be written. `rows` counts what each step was given."""

    def __init__(self):
        self.rows = []

    def encode(self, source):
        return source

    def start(self, memory):
        return Script(memory)

    def step(self, tokens, cache):
        assert len(tokens) == len(cache.lines)
        self.rows.append(len(tokens))
        said = cache.lines[:, cache.step]
        cache.step += 1
        return 5.0 * torch.nn.functional.one_hot(said, WORDS)[:, None]


def script(*lines):
    return torch.tensor([line + [7] * (30 - len(line)) for line in lines])


def test_what_comes_after_the_end_or_the_bound_is_not_read():
    """Of twelve sentences one is done: it waits in the batch, and goes on talking."""
    sentences = [[3, END, 4, 5, END, 6], *([[3, 4, 5, 6, 7, END]] * 10), [8, 8, 8, 8, END]]
    found = decode_one_by_one(Scripted(), script(*sentences), [6] * 11 + [4])
    assert [h.ids for h in found] == [[3], *([[3, 4, 5, 6, 7]] * 10), [8, 8, 8, 8]]
    assert [h.finished for h in found] == [True] * 11 + [False]
    each = torch.tensor([5.0] + [0.0] * (WORDS - 1)).log_softmax(0)[0].item()
    assert [h.log_probability for h in found] == pytest.approx([2 * each, *([6 * each] * 10), 4 * each])


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_sentences_that_are_done_leave_the_batch(count):
    model = Scripted()
    found = decode_one_by_one(model, script(*([3] * n + [END] for n in range(count))), [25] * count)
    assert [len(h.ids) for h in found] == list(range(count))
    assert len(model.rows) == count, "and when the last is done, no step is made"
    for step, rows in enumerate(model.rows):
        assert count - step <= rows < (count - step) / 0.9 + 1e-6
    assert model.rows == sorted(model.rows, reverse=True)


def test_a_model_that_never_ends_stops_at_each_limit():
    model = Scripted()
    found = decode_one_by_one(model, script([3], [4], [5]), [1, 9, 4])
    assert [len(h.ids) for h in found] == [1, 9, 4]
    assert not any(h.finished for h in found)
    assert model.rows == [3, 2, 2, 2, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("never", [PADDING, BEGIN])
def test_padding_and_begin_are_never_written(never):
    """… however much the model would like to."""
    said = torch.tensor([never, 5, never, 5])
    chosen = []
    decode_one_by_one(Scripted(), said[None], [4], choose=lambda log_p, rows, step: keep(chosen, log_p.argmax(-1)))
    assert torch.cat(chosen)[[1, 3]].tolist() == [5, 5]
    assert never not in torch.cat(chosen)


def keep(seen, chosen):
    """Remember what was chosen; an end is replaced, so that all is seen."""
    seen.append(chosen)
    return chosen.clamp(min=END + 1)
