"""What is lost without a head is what the model loses: as `importance` says it, as zeroed weights do it, as sacreBLEU counts it."""

import gzip
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import given
from hypothesis import strategies as st

from cli.command import status
from manyheads import InputError, OptionError, Transformer, Translator, inspect, report_heads
from manyheads.decoding.find_reading import find_reading
from manyheads.inspection import headreport
from manyheads.inspection.importance import importance
from manyheads.inspection.live import Live
from manyheads.inspection.losing import Without, log_probability_lost, without
from manyheads.inspection.roles import ROLES
from manyheads.inspection.switches import Head, every_head, switched_off
from manyheads.inspection.trace import attentions

DEV = Path(headreport.__file__).parents[1] / "bundled" / "tatoeba" / "dev.tsv.gz"
SOME = [Head("encoder", 2, 1), Head("decoder", 0, 3), Head("cross", 0, 0), Head("cross", 3, 3)]


def dev(count):
    with gzip.open(DEV, "rt", encoding="utf-8") as lines:
        return [tuple(next(lines).rstrip("\n").split("\t")) for _ in range(count)]


@pytest.fixture(scope="module")
def translator():
    return Translator.load("de-en", "cpu", "fp32")


@pytest.fixture(scope="module")
def small(translator, tmp_path_factory):
    """A folder with a model of 8 heads that has learnt nothing: it is quick to go without each of them."""
    torch.manual_seed(1)
    shape = {"width": 16, "layers": 2, "decoder_layers": 1, "heads": 2, "feedforward": 16}
    recipe = replace(translator.recipe, model=replace(translator.recipe.model, **shape))
    recipe = replace(recipe, decode=replace(recipe.decode, max_ratio=0.0, max_extra=4))
    model = Transformer(recipe.model, translator.vocabulary.source.size)
    folder = tmp_path_factory.mktemp("small") / "small"
    Translator(model, translator.vocabulary, recipe).save(folder)
    return str(folder)


@pytest.fixture(scope="module")
def report(small):
    return report_heads(small, dev(9), limit=4)


def only(heads):
    """A model that has no other heads to go without."""
    return lambda _: heads


def test_of_one_pair_it_is_what_importance_says(translator):
    (pair,) = dev(1)
    found = report_heads(translator, [pair], follow=only(SOME))
    table = importance(inspect(translator, *pair))
    assert [Head(one.kind, one.layer, one.head) for one in found.heads] == SOME
    for one, head in zip(found.heads, SOME, strict=True):
        assert one.lost.log_probability * found.pieces == pytest.approx(-table[head], abs=1e-4)
        assert one.lost.log_probability_error is None


def test_without_a_head_is_with_its_output_weights_at_0(translator):
    pairs, search = dev(12), translator.search(beam=1)
    head = Head("cross", 3, 3)
    found = without(translator, pairs, search, [head])
    whole = without(translator, pairs, search, [])
    weights = attentions(translator.single)[head.kind][head.layer].output.weight
    before = weights.detach().clone()
    with torch.no_grad():
        width = weights.shape[1] // translator.single.config.heads
        weights[:, head.head * width : (head.head + 1) * width] = 0
        expected = without(translator, pairs, search, [])
        weights.copy_(before)
    assert found.outputs == expected.outputs
    np.testing.assert_allclose(found.log_probabilities, expected.log_probabilities, atol=1e-4)
    assert np.abs(np.subtract(found.log_probabilities, whole.log_probabilities)).max() > 0.01


def test_a_pair_loses_the_same_alone_and_in_a_batch(translator):
    pairs, search = dev(6), translator.search(beam=1)
    together = without(translator, pairs, search, SOME[:1])
    alone = [without(translator, [pair], search, SOME[:1]) for pair in pairs]
    np.testing.assert_allclose(together.log_probabilities, [one.log_probabilities[0] for one in alone], atol=1e-4)
    assert together.outputs == [one.outputs[0] for one in alone]


@pytest.mark.parametrize("count", [8, 30])
def test_scores_are_those_of_sacrebleu(translator, count):
    pairs, head = dev(count), SOME[3]
    found = report_heads(translator, pairs, follow=only([head]))
    references = [[target for _, target in pairs]]
    outputs = [without(translator, pairs, translator.search(beam=1), off).outputs for off in ([], [head])]
    bleu = [sacrebleu.corpus_bleu(one, references).score for one in outputs]
    chrf = [sacrebleu.corpus_chrf(one, references).score for one in outputs]
    assert [found.bleu, found.chrf] == pytest.approx([bleu[0], chrf[0]], abs=1e-3)
    lost = found.heads[0].lost
    assert [lost.bleu, lost.chrf] == pytest.approx([bleu[0] - bleu[1], chrf[0] - chrf[1]], abs=1e-3)
    assert [lost.bleu_p is None, lost.chrf_p is None] == 2 * [count < 30]  # few pairs cannot tell
    assert 0 <= (lost.bleu_p or 0) <= 1
    assert found.signatures["bleu"].startswith("nrefs:1")


def test_a_model_that_names_no_alignment_is_asked_for_one(small):
    found = Translator.load(small)
    found.recipe = replace(found.recipe, decode=replace(found.recipe.decode, alignment=None))
    report = report_heads(found, dev(6), follow=only([Head("cross", 0, 1)]))
    assert report.reading == str(find_reading(found, dev(6)))
    assert 0 < report.heads[0].looks["aligned"] <= 1


def test_the_search_is_the_one_that_is_asked_for(translator):
    pairs = dev(5)
    found = report_heads(translator, pairs, follow=only(SOME[:1]), beam=3)
    assert found.search == {"beam": 3, "length_penalty": translator.search().length_penalty}
    expected = [one.text for one in translator.translate([source for source, _ in pairs], translator.search(beam=3))]
    bleu = sacrebleu.corpus_bleu(expected, [[target for _, target in pairs]]).score
    assert found.bleu == pytest.approx(bleu, abs=1e-3)


def test_the_error_is_that_of_the_jackknife():
    drawn = np.random.default_rng(1)
    pieces = drawn.integers(3, 20, 400)
    whole = Without(list(-drawn.gamma(2, pieces)), pieces.tolist(), [])
    gone = Without([value - change for value, change in zip(whole.log_probabilities, drawn.normal(0.1, 1, 400) * pieces, strict=True)],
        pieces.tolist(), [])  # fmt: skip
    mean, error = log_probability_lost(whole, gone)
    lost = np.subtract(whole.log_probabilities, gone.log_probabilities)
    assert mean == pytest.approx(lost.sum() / pieces.sum())
    left_out = (lost.sum() - lost) / (pieces.sum() - pieces)
    assert error == pytest.approx(np.sqrt(399 / 400 * ((left_out - left_out.mean()) ** 2).sum()), rel=0.02)


@given(st.integers(1, 300), st.integers(1, 400))
def test_pairs_are_spread_evenly(count, limit):
    pairs = [(str(n), "") for n in range(count)]
    found = [int(source) for source, _ in headreport.spread_over(pairs, limit)]
    assert len(found) == min(count, limit)
    assert found[0] == 0
    steps = set(np.diff(found))
    assert not steps or (min(steps) >= 1 and max(steps) - min(steps) <= 1)


def test_the_head_that_some_pairs_rank_first_matters_more_to_others_than_the_last(translator):
    """Ranked on one half of a sample, measured on the other, and the other way round: the heads of the first layers, by
    log-probability. (`benchmarks.heads` does it with all heads, all pairs, and BLEU.)"""
    pairs = headreport.spread_over(dev(1895), 64)
    heads = [head for head in every_head(translator.single) if head.layer == 0 and head.kind != "decoder"]

    def log_probabilities(off):
        with switched_off(translator.single, off):
            return np.array([one.log_probability for one in translator.score(pairs)])

    whole = log_probabilities([])
    lost = np.array([whole - log_probabilities([head]) for head in heads])
    halves = [lost[:, n::2].sum(1) for n in (0, 1)]
    for ranked, other in (halves, halves[::-1]):
        assert other[ranked.argmax()] > other[ranked.argmin()]
        assert heads[ranked.argmax()] == Head("cross", 0, 0)  # which aligns


# ── what is made of it ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_report_is_plain_data(report):
    assert (report.pairs, report.of, report.cut, report.model) == (4, 9, 0, "small")
    assert [one.kind for one in report.heads] == 4 * ["encoder"] + 2 * ["decoder"] + 2 * ["cross"]
    assert {one.role for one in report.heads} <= set(ROLES)
    ranked = [one.lost.log_probability for one in report.ranked()]
    assert ranked == sorted(ranked, reverse=True)
    assert json.loads(json.dumps(report.as_json()))["heads"][0]["looks"].keys() >= {"previous", "entropy"}
    assert str(report.ranked("bleu")[0]).count(".") == 1


def test_it_is_shown_beside_a_sentence_of_the_same_model(report, small, translator):
    found = inspect(small, "Ein Hund schläft.", report=report)
    assert found.as_json()["heads"]["pairs"] == 4
    with pytest.raises(OptionError, match="must be on the heads of the model"):
        inspect(translator, "Ein Hund.", report=report)
    with pytest.raises(OptionError, match="needs a report"):
        inspect(small, "Ein Hund.").save("none.svg", view="heads")


def test_a_live_page_keeps_it_when_it_is_asked_something_else(report, small):
    live = Live(Translator.load(small), report)
    assert live.inspect("Ein Hund.")["report"] == report.as_json()
    assert Live(live.translator).inspect("Ein Hund.")["report"] is None


def test_the_picture_has_every_head_and_its_role(report, tmp_path):
    pytest.importorskip("matplotlib")
    drawn = ElementTree.parse(report.save(tmp_path / "heads.svg"))
    texts = ["".join(element.itertext()).strip() for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    numbers = [text for text in texts if re.fullmatch(r"[+−]\d+\.\d\d", text)]
    assert numbers == [f"{one.lost.bleu:+.2f}".replace("-", "−") for kind in ("encoder", "decoder", "cross")
        for one in report.heads if one.kind == kind]  # fmt: skip
    assert texts.count("same") == sum(one.role == "same" for one in report.heads)
    assert any("4 of 9 pairs, greedy search" in text for text in texts)
    assert report.save(tmp_path / "heads.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(OptionError, match=r"\.svg, \.png, \.json"):
        report.save(tmp_path / "heads.html")


@pytest.mark.parametrize(("pairs", "limit", "why"), [([], None, "got none"), ([("a", "b")], 0, "limit of 0")])
def test_nothing_to_report_on_is_refused(translator, pairs, limit, why):
    with pytest.raises((InputError, OptionError), match=why):
        report_heads(translator, pairs, limit=limit)


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tsv(tmp_path):
    path = tmp_path / "dev.tsv"
    lines = [f"{source}\t{target}" for source, target in dev(3)]
    path.write_text("\n".join([*lines, "\tblank on one side"]), encoding="utf-8")
    return str(path)


def test_the_command_reports_in_the_terminal(small, tsv, capsys):
    assert status("inspect", small, "--data", tsv, "--limit", "1", "--device", "cpu") == 0
    told, said = capsys.readouterr()
    assert "these are few pairs" in told
    assert told.startswith("1 of 3 pairs, greedy search: BLEU ")
    assert len(re.findall(r"^(?:encoder|decoder|cross) \d\.\d", told, re.MULTILINE)) == 8
    assert "1 line left out" in said
    assert "8 heads, each removed in turn, on 1 of 3 pairs" in said


def test_the_command_writes_it_beside_the_first_pair(small, tsv, tmp_path, capsys):
    page, numbers = tmp_path / "heads.html", tmp_path / "heads.json"
    words = ("inspect", small, "--data", tsv, "--limit", "2", "--device", "cpu")
    assert status(*words, "--html", str(page), "--json", str(numbers)) == 0
    assert capsys.readouterr().out == ""
    found = json.loads(numbers.read_text())
    assert (found["source"]["text"], found["translation"], found["forced"]) == (*dev(1)[0], True)
    assert (found["heads"]["pairs"], found["heads"]["of"], len(found["heads"]["heads"])) == (2, 3, 8)
    assert '"report": {"model": "small", "pairs": 2, "of": 3' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "why"),
    [(("--limit", "3"), "--limit without --data"), (("--view", "heads"), "--view heads without --data")],
)
def test_what_belongs_to_data_is_refused_without(words, why, capsys):
    assert status("inspect", "de-en", "--text", "Ein Hund.", *words) == 2
    assert why in capsys.readouterr().err
