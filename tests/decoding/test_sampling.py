"""Draws: as frequent as the model says, within top_k and top_p, and the same whatever the batch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import Transformer, TransformerConfig
from manyheads.decoding.greedy import Sampler, decode_one_by_one, exponentials, mixed
from manyheads.text.tokenizer import END, PADDING

WORDS = 9
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 1}
LOG_P = torch.tensor([0.03, 0.4, 0.07, 0.2, 0.25, 0.05]).log()


def build(seed):
    torch.manual_seed(seed)
    config = TransformerConfig(width=16, layers=1, heads=2, feedforward=32, dropout=0.0, tie="none", norm="pre")
    model = Transformer(config, WORDS).eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


def draw_batch(lengths):
    rows = [torch.randint(END, WORDS, (length,)) for length in lengths]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


def draw(log_p, count, step=0, **options):
    """One word for each of `count` sentences that all have the same distribution."""
    sampler = Sampler(range(count), **(PLAIN | options))
    return sampler(log_p.expand(count, -1), torch.arange(count), step)


@torch.no_grad()
def sample(model, source, limits, numbers, **options):
    sampler = Sampler(numbers, **(PLAIN | options))
    return [h.ids for h in decode_one_by_one(model, source, limits, choose=sampler)]


def chi_square(drawn, p):
    expected = p * len(drawn)
    return ((torch.bincount(drawn, minlength=len(p)) - expected) ** 2 / expected).sum().item()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("step", [0, 4])
def test_words_are_as_frequent_as_they_are_likely(temperature, step):
    drawn = draw(LOG_P, 5_000, step, temperature=temperature)
    assert chi_square(drawn, (LOG_P / temperature).softmax(0)) < 26, "one in ten thousand, with 5 degrees of freedom"


def test_what_remains_keeps_its_proportions():
    drawn = draw(LOG_P, 5_000, top_k=3)
    kept = torch.tensor([1, 3, 4])
    assert set(drawn.tolist()) == {1, 3, 4}
    places = torch.searchsorted(kept, drawn)
    assert chi_square(places, LOG_P[kept].softmax(0)) < 19, "one in ten thousand, with 2 degrees of freedom"


def test_steps_and_sentences_are_drawn_independently():
    """Pairs of numbers of one sentence, of neighbours, and of neighbouring words fall evenly on the square."""
    keys = Sampler(range(4_001), **PLAIN).keys
    first, second = (exponentials(mixed(keys + step), 2).neg().exp() for step in (0, 1))
    for a, b in [(first[:, 0], second[:, 0]), (first[:-1, 0], first[1:, 0]), (first[:, 0], first[:, 1])]:
        cells = (4 * a).long() * 4 + (4 * b).long()
        assert chi_square(cells, torch.full((16,), 1 / 16)) < 45, "one in ten thousand, with 15 degrees of freedom"


@settings(max_examples=50)
@given(
    logits=st.lists(st.floats(-6, 6), min_size=2, max_size=12, unique=True),
    top_k=st.integers(0, 14),
    top_p=st.floats(0.0001, 1),
    temperature=st.floats(0.1, 10),
)
def test_only_what_top_k_and_top_p_allow_is_drawn(logits, top_k, top_p, temperature):
    p = (torch.tensor(logits).log_softmax(0) / temperature).softmax(0).tolist()
    allowed, so_far = set(), 0.0
    for word in sorted(range(len(p)), key=lambda word: -p[word]):
        if so_far < top_p + 1e-6 and (not top_k or len(allowed) < top_k):
            allowed.add(word)
        so_far += p[word]
    drawn = draw(torch.tensor(logits).log_softmax(0), 200, top_k=top_k, top_p=top_p, temperature=temperature)
    assert set(drawn.tolist()) <= allowed


def test_a_word_that_cannot_be_is_never_drawn():
    log_p = torch.cat([torch.full((1_000,), -torch.inf), torch.randn(3_000)]).log_softmax(0)
    assert draw(log_p, 500).min() >= 1_000


def test_numbers_are_those_of_splitmix64():
    """The first of its stream from the seed 1234567, as they are published, and never 0."""
    published = torch.tensor([6457827717110365317, 3203168211198807973, 9817491932198370423 - 2**64])
    keys = torch.tensor([1234567])
    u = ((published >> 12) & (2**52 - 1)).double().add(0.5) * 2**-52
    torch.testing.assert_close(exponentials(keys, 3)[0], -u.log(), rtol=0, atol=0)
    assert exponentials(torch.arange(50), 1_000).min() > 0


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 0.0001}, {"temperature": 0.01, "top_p": 0.5}], ids=str)
@torch.no_grad()
def test_the_narrowest_draw_is_greedy_search(options):
    for seed in range(10):
        model, limits = build(seed), [8, 3, 12]
        source = draw_batch([4, 7, 1])
        greedy = [h.ids for h in decode_one_by_one(model, source, limits)]
        assert sample(model, source, limits, [5, 6, 7], **options) == greedy


@settings(max_examples=12)
@given(seed=st.integers(0, 9_999), order=st.permutations(range(6)), cut=st.integers(1, 5))
def test_draws_follow_the_sentence_not_the_batch(seed, order, cut):
    model, limits = build(seed), [9, 4, 12, 7, 1, 10]
    source = draw_batch([4, 7, 1, 3, 2, 6])
    together = sample(model, source, limits, range(6), seed=seed)
    for rows in (order[:cut], order[cut:]):
        found = sample(model, source[rows], [limits[n] for n in rows], rows, seed=seed)
        assert found == [together[n] for n in rows]


def test_seeds_and_sentences_differ():
    model, source = build(0), draw_batch([5]).expand(20, -1)
    first, second = (sample(model, source, [12] * 20, range(20), seed=seed) for seed in (1, 2))
    assert first == sample(model, source, [12] * 20, range(20), seed=1)
    assert sum(a != b for a, b in zip(first, second, strict=True)) > 15
    assert len(set(map(tuple, first))) > 15


def test_the_probability_of_a_sample_is_the_models_own():
    """… at temperature 1 and of all words, however it was drawn."""
    model, source = build(0), draw_batch([5])
    sampler = Sampler([3], **(PLAIN | {"temperature": 5.0, "top_k": 4}))
    with torch.no_grad():
        (found,) = decode_one_by_one(model, source, [6], choose=sampler)
        labels = torch.tensor([*found.ids, END] if found.finished else found.ids)
        log_p = model(source, torch.cat([torch.tensor([1]), labels[:-1]])[None])[0].log_softmax(-1)
    assert found.log_probability == pytest.approx(log_p.gather(1, labels[:, None]).sum().item(), abs=1e-4)
