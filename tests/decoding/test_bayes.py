"""Minimum Bayes risk: chrF as sacreBLEU has it, and the sample that agrees most, found the slow way."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from decoding.test_translator import LINES, build
from manyheads import OptionError
from manyheads.decoding.bayes import agreement, translate_by_agreement
from manyheads.decoding.chrf import pairwise_chrf

sentences = st.lists(st.text(st.sampled_from("abcd .é\u00a0"), max_size=14), min_size=1, max_size=5)
theirs = CHRF()


def chrf(text, reference):
    return theirs.sentence_score(text, [reference]).score


@given(sentences)
def test_chrf_is_that_of_sacrebleu(texts):
    ours = pairwise_chrf(texts)
    for n, text in enumerate(texts):
        assert ours[n].tolist() == pytest.approx([chrf(text, reference) for reference in texts], abs=1e-9)


@given(sentences.filter(lambda texts: len(texts) > 1))
def test_agreement_is_the_mean_over_all_others(texts):
    for n, found in enumerate(agreement(texts)):
        others = [chrf(texts[n], reference) for m, reference in enumerate(texts) if m != n]
        assert found == pytest.approx(sum(others) / len(others), abs=1e-9)


def test_memory_grows_with_the_texts():
    """… not with texts times all n-grams: of 100 texts that share little, these are 100 times as much."""
    rng = random.Random(0)
    texts = ["".join(rng.choices("abcdefgh", k=1_000)) for _ in range(100)]
    tracemalloc.start()
    pairwise_chrf(texts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * 100 * 1_000


def samples(translator, seed, **options):
    return [one.text for one in translator.translate(LINES, translator.search(sample=True, seed=seed, **options))]


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5, "top_p": 0.9}], ids=str)
def test_the_one_that_agrees_most_is_chosen_among_the_samples_of_the_seeds(options):
    translator = build()
    drawn = list(zip(*(samples(translator, seed, **options) for seed in (3, 4, 5, 6)), strict=True))
    for batch, chunk in ((1, 3), (7, 100)):
        search = translator.search(sample=True, seed=3, batch=batch, **options)
        found = list(translate_by_agreement(translator, LINES, 4, search, chunk=chunk))
        for texts, one in zip(drawn, found, strict=True):
            scores = agreement(texts)
            assert one.text == texts[int(scores.argmax())]
            assert one.score == pytest.approx(scores.max())


def test_the_more_samples_the_fewer_lines_at_a_time(monkeypatch):
    translator, sizes = build(), []
    translate = translator.translate_block
    monkeypatch.setattr(
        translator, "translate_block", lambda lines, *given: sizes.append(len(lines)) or translate(lines, *given)
    )
    monkeypatch.setattr("manyheads.decoding.bayes.HELD", 12)
    list(translate_by_agreement(translator, LINES, 4, translator.search(sample=True)))
    assert max(sizes) == 3
    sizes.clear()
    monkeypatch.setattr("manyheads.decoding.bayes.HELD_CHARACTERS", 4)
    list(translate_by_agreement(translator, LINES, 4, translator.search(sample=True)))
    assert max(sizes) == 2, "a blank one and one of some characters"


def test_seeds_begin_again_after_the_last():
    translator = build()
    list(translate_by_agreement(translator, ["bee"], 3, translator.search(sample=True, seed=2**32 - 2)))


@pytest.mark.parametrize("count", [0, 1, 1_001])
def test_how_many_samples_there_may_be(count):
    translator = build()
    with pytest.raises(OptionError, match="agreement needs 2 to 1,000 samples, got"):
        next(translate_by_agreement(translator, ["bee"], count, translator.search(sample=True)))


def test_alignments_belong_to_the_sample_that_is_chosen():
    translator = build()
    search, reading = translator.search(sample=True), translator.reading("0.1")
    (one,) = translate_by_agreement(translator, ["a bad cafe"], 4, search, align=reading)
    assert {t for _, t in one.n_best[0].alignment} == set(range(len(one.text)))
