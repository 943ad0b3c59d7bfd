"""Comparisons: the scores are those of an evaluation, and luck is told from what is no luck."""

import random

import pytest

from decoding.test_translator import build
from manyheads import OptionError, compare
from manyheads.cli.compare import compare as show_comparison
from manyheads.cli.compare import show
from manyheads.evaluation.compare import compare_outputs, largest_differences
from manyheads.evaluation.scores import score_outputs

WORDS = [
    "the",
    "a",
    "dog",
    "cat",
    "house",
    "tree",
    "runs",
    "sleeps",
    "sees",
    "on",
    "under",
    "big",
    "small",
    "red",
    "very",
]


def sentence(rng):
    return " ".join(rng.choices(WORDS, k=8))


def spoil(text, rng, share):
    return " ".join(rng.choice(WORDS) if rng.random() < share else word for word in text.split())


@pytest.fixture(scope="module")
def pairs():
    rng = random.Random(0)
    return [(f"source {n}", sentence(rng)) for n in range(120)]


def outputs(pairs, share, seed):
    rng = random.Random(seed)
    return [spoil(target, rng, share) for _, target in pairs]


@pytest.mark.parametrize(("test", "signed"), [("bootstrap", "bs:1000"), ("randomisation", "ar:10000")])
def test_scores_are_those_of_an_evaluation_and_better_is_no_luck(pairs, test, signed):
    made = {"good": outputs(pairs, 0.1, 1), "bad": outputs(pairs, 0.4, 2), "as good": outputs(pairs, 0.1, 3)}
    found = compare_outputs(pairs, made, test=test, symbols=False)
    for row, texts in enumerate(made.values()):
        scores = score_outputs(pairs, texts, symbols=False)
        assert found.metrics["bleu"][row].score == pytest.approx(scores.bleu, abs=1e-3)
        assert found.metrics["chrf"][row].score == pytest.approx(scores.chrf, abs=1e-3)
    for figures in found.metrics.values():
        assert figures[0].p is None
        assert figures[1].p < 0.002
        assert figures[2].p > 0.05
        assert all(1 < one.interval < 15 for one in figures)
    assert signed in found.signatures["bleu"]
    assert found.lines == 120


def test_a_model_is_no_better_than_itself(pairs):
    texts = outputs(pairs, 0.3, 1)
    found = compare_outputs(pairs, {"one": texts, "again": texts}, symbols=True)
    assert [figures[1].p for figures in found.metrics.values()] == [1.0] * 4
    assert found.differences == []


def test_error_rates_are_those_of_an_evaluation(pairs):
    several = [*pairs, *((source, f"{target} too") for source, target in pairs[:30])]
    made = {}
    for name, share in (("good", 0.02), ("bad", 0.2)):
        by_source = dict(zip((source for source, _ in pairs), outputs(pairs, share, 1), strict=True))
        made[name] = [by_source[source] for source, _ in several]
    found = compare_outputs(several, made, symbols=True)
    for row, texts in enumerate(made.values()):
        extra = score_outputs(several, texts, symbols=True).extra
        assert found.metrics["wer"][row].score == pytest.approx(extra["wer"], abs=1e-3)
        assert found.metrics["per"][row].score == pytest.approx(extra["per"], abs=1e-3)
    assert found.metrics["per"][1].p < 0.01


def test_the_largest_differences_come_first_and_once():
    pairs = [("a", "one two"), ("b", "three four"), ("c", "five"), ("b", "three four")]
    found = largest_differences(
        pairs, [["one two", "three four", "five", "three four"], ["one too", "zzz", "five", "zzz"]]
    )
    assert [one.source for one in found] == ["b", "a"]
    assert found[0].chrf == [100.0, 0.0]
    assert found[0].outputs == ["three four", "zzz"]


def test_one_model_is_no_comparison():
    with pytest.raises(OptionError, match="needs two models or more, got 1"):
        compare(["de-en"], ["nowhere.tsv"])


def test_models_are_shown_by_the_names_they_have(pairs, capsys):
    """[b] is no bold type."""
    texts = outputs(pairs[:9], 0.3, 1)
    show(compare_outputs(pairs[:9], {"run[b]": texts, "[/]": texts}, symbols=False))
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:3]]
    assert rows == ["run[b]", "[/]"]


def test_what_sides_are_called_matters_where_files_name_them(tmp_path):
    """One model learnt from JSONL, with keys of its own."""
    one = build()
    other = one.naming("eng", "deu")
    tsv, jsonl = tmp_path / "pairs.tsv", tmp_path / "pairs.jsonl"
    tsv.write_text("abc\tcba\nfed\tdef\n")
    jsonl.write_text('{"en": "abc", "de": "cba"}\n{"en": "fed", "de": "def"}\n')
    assert compare([one, other], [str(tsv)]).lines == 2
    with pytest.raises(
        OptionError, match="use the same names for the sides of a file, got 'en', 'de' and 'eng', 'deu'"
    ):
        compare([one.naming("en", "de"), other], [str(jsonl)])
    assert compare([one, other], [str(jsonl)], source="en", target="de").lines == 2


def test_of_few_pairs_it_is_said_that_p_means_little(tmp_path, capsys):
    data = tmp_path / "two.tsv"
    data.write_text("Danke!\tThanks!\nJa.\tYes.\n")
    show_comparison("de-en", "de-en", data=(str(data),), device="cpu")
    assert "2 pairs: too few for p and intervals to mean much" in capsys.readouterr().err
