"""BLEU and chrF are sacreBLEU's; error rates of symbols count a source once."""

import json

import pytest
import sacrebleu

from manyheads.decoding.translation import ForcedScore
from manyheads.evaluation.rates import mean_loss, perplexity
from manyheads.evaluation.scores import score_outputs

TARGETS = ["The cat sat on the mat.", "A dog, asleep in the sun!", "It's raining today, isn't it?", "Übermorgen: 3.5 %"]
OUTPUTS = ["The cat sat on a mat.", "A dog asleep in the sun!", "It is raining today.", "Übermorgen: 3.5 %"]
PAIRS = [(f"source {n}", target) for n, target in enumerate(TARGETS)]


def test_bleu_and_chrf_are_sacrebleus():
    scores = score_outputs(PAIRS, OUTPUTS, symbols=False)
    assert scores.bleu == sacrebleu.corpus_bleu(OUTPUTS, [TARGETS]).score
    assert scores.chrf == sacrebleu.corpus_chrf(OUTPUTS, [TARGETS]).score
    assert 0 < scores.bleu < 100
    assert 0 < scores.chrf < 100
    assert scores.exact == 25
    assert scores.lines == 4
    assert scores.extra == {}


def test_signatures_say_how_it_was_computed():
    scores = score_outputs(PAIRS, OUTPUTS, symbols=False)
    for part in (f"version:{sacrebleu.__version__}", "nrefs:1", "case:mixed"):
        assert part in scores.signature
        assert part in scores.chrf_signature
    assert "tok:13a" in scores.signature
    assert "smooth:exp" in scores.signature
    assert "nc:6|nw:0" in scores.chrf_signature


def test_error_rates_count_a_source_once_with_all_its_references():
    pairs = [("read", "R EH D"), ("cat", "K AE T"), ("read", "R IY D"), ("data", "D EY T AH"), ("data", "D AE T AH")]
    outputs = ["R IY D", "K AH T", "R IY D", "D EY D AH", "D EY D AH"]
    scores = score_outputs(pairs, outputs, symbols=True)
    assert scores.extra["wer"] == pytest.approx(100 * 2 / 3), "cat and data"
    assert scores.extra["per"] == pytest.approx(100 * 2 / 10), "one in cat, one in data; 3 + 3 + 4 symbols"
    assert scores.exact == 20, "of lines, each with its own target"
    assert scores.lines == 5


def test_an_object_for_json():
    scores = score_outputs([("a", "A B"), ("b", "B")], ["A B", "C"], symbols=True)
    scores.perplexity, scores.seconds, scores.left_out = 1.23456789, 0.98765, 3
    found = json.loads(json.dumps(scores.as_object()))
    assert list(found) == [
        "bleu", "chrf", "perplexity", "exact", "wer", "per", "signature", "chrf_signature", "lines", "left_out", "not_finite",
        "precision", "seconds",
    ]  # fmt: skip
    assert (found["perplexity"], found["seconds"], found["left_out"]) == (1.2346, 0.988, 3)
    assert (found["exact"], found["wer"], found["per"]) == (50, 50, 33.3333)
    assert "wer" not in score_outputs(PAIRS, OUTPUTS, symbols=False).as_object()


def test_perplexity_is_by_piece():
    assert mean_loss([ForcedScore(-2.0, 3), ForcedScore(-4.0, 1)]) == 1.5
    assert perplexity(1.5) == pytest.approx(2.718281828**1.5)
    assert perplexity(1e9) < float("inf")
