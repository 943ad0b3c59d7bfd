"""A second opinion: what a beam holds is compared by what all models think of it."""

from dataclasses import replace
from math import inf, nan

import pytest
import torch

from decoding import untrained
from decoding.test_ensemble import another
from decoding.test_judging import writer as at_once
from decoding.test_translator import LINES, build, texts
from manyheads import OptionError, Transformer, Wishes, ensemble, inspect
from manyheads.decoding.hypothesis import NOTHING, Hypothesis, length_penalty
from manyheads.decoding.second_opinion import reconsidered
from manyheads.decoding.translator import Translator
from manyheads.text.bytepairs import BytePairs
from manyheads.text.tokenizer import END
from manyheads.text.vocabulary import Vocabulary

SOURCES = ["a bad cafe", "bee"]
FOUND = ["abc", "", "fed a bee", "b"]
OWN = [-1.0, -1.5, -1.7, -2.0]
ALPHA = 0.6


def of_other_pieces(*, backwards=False):
    """A judge that cuts text into other pieces."""
    torch.manual_seed(9)
    first = build()
    vocabulary = Vocabulary(BytePairs([("Ġ", "a"), ("e", "d"), ("Ġa", "b")]), backwards=backwards)
    model = Transformer(first.recipe.transformer, vocabulary.sizes).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return Translator(model, vocabulary, first.recipe)


JUDGES = {
    "of a kind": lambda: [another(7)],
    "other pieces": lambda: [of_other_pieces()],
    "backwards": lambda: [of_other_pieces(backwards=True)],
    "several": lambda: [another(7), of_other_pieces(backwards=True)],
}


def hypotheses(writer):
    """For each source the same, as if a search had found them."""
    ids = writer.vocabulary.target.encode(FOUND)
    return [[Hypothesis(one, 2 * own, own, True) for one, own in zip(ids, OWN, strict=True)] for _ in SOURCES]


def ask(writer, judges, found=None):
    sources = [[*ids, END] for ids in writer.vocabulary.source.encode(SOURCES)]
    return reconsidered(writer, judges, sources, found or hypotheses(writer), writer.search(length_penalty=ALPHA))


def opinion(translator, source, text):
    (scored,) = translator.score([(source, text)])
    return scored.log_probability / length_penalty(scored.tokens, ALPHA)


@pytest.mark.parametrize("judges", JUDGES.values(), ids=JUDGES)
def test_hypotheses_are_ranked_by_the_mean_of_all_opinions(judges):
    """Each is scored by itself, by every judge."""
    writer, judges = build(), judges()
    decode = writer.vocabulary.target.decode
    for source, found in zip(SOURCES, ask(writer, judges), strict=True):
        wanted = {
            text: (own + sum(opinion(judge, source, text) for judge in judges)) / (1 + len(judges))
            for text, own in zip(FOUND, OWN, strict=True)
        }
        assert [decode(one.ids) for one in found] == sorted(FOUND, key=lambda text: -wanted[text])
        assert [one.score for one in found] == pytest.approx(sorted(wanted.values(), reverse=True), abs=1e-4)
        assert {(decode(one.ids), one.log_probability) for one in found} == set(
            zip(FOUND, [2 * x for x in OWN], strict=True)
        )


def test_everybody_has_one_vote():
    """Three that search as one, or judge as one, weigh as much as three."""
    one, team = of_other_pieces(), ensemble([build(), another(7), another(5)])
    (first, _), (second, _) = ask(team, [one]), ask(one, [team])
    written = dict(zip(FOUND, OWN, strict=True))
    for found, writer, judge, votes in ((first, team, one, (3, 1)), (second, one, team, (1, 3))):
        for best in found:
            text = writer.vocabulary.target.decode(best.ids)
            mean = (votes[0] * written[text] + votes[1] * opinion(judge, SOURCES[0], text)) / 4
            assert best.score == pytest.approx(mean, abs=1e-4)


def test_what_is_not_finite_comes_last():
    writer, judge = build(), another(7)
    plain = judge.score

    def broken(pairs, batch=64):
        scored = zip(plain(pairs, batch), pairs, strict=True)
        return [replace(one, log_probability=nan) if text == "abc" else one for one, (_, text) in scored]

    judge.score = broken
    for found in ask(writer, [judge]):
        assert writer.vocabulary.target.decode(found[-1].ids) == "abc"
        assert found[-1].score == -inf
    nothing = ask(writer, [another(7)], [[NOTHING], [NOTHING]])
    assert not any(one.finite for those in nothing for one in those)


def test_the_choice_changes_and_every_line_has_its_line():
    writer = build()
    judged = writer.judged_by(of_other_pieces(), another(5))
    before, after = texts(writer, LINES, beam=4), texts(judged, LINES, beam=4)
    assert before != after
    assert [bool(text.strip()) for text in after] == [bool(line.strip()) for line in LINES]


def test_the_best_is_the_first_of_the_best():
    judged = build().judged_by(of_other_pieces())
    for line in LINES:
        one, several = (next(iter(judged.translate([line], judged.search(beam=4, n_best=n)))) for n in (1, 4))
        assert one.n_best == several.n_best[:1]
        assert [best.score for best in several.n_best] == sorted((b.score for b in several.n_best), reverse=True)


@pytest.mark.parametrize("batch", [1, 3])
def test_it_does_not_depend_on_the_batch(batch):
    judged = build().judged_by(of_other_pieces(backwards=True))
    assert texts(judged, LINES, beam=4, batch=batch) == texts(judged, LINES, beam=4)


def test_wishes_are_kept_to():
    judged = untrained.build("characters").judged_by(of_other_pieces())
    for found in judged.translate(["abc", "fed cab"], judged.search(beam=4), wishes=Wishes(prefix="ca")):
        assert found.text.startswith("ca")
        assert not found.unmet


def test_what_is_refused(tmp_path):
    writer, judge = build(), another(7)
    with pytest.raises(OptionError, match="at least one other model, got none"):
        writer.judged_by()
    with pytest.raises(OptionError, match="token by token"):
        writer.judged_by(at_once("mask"))
    for one, other in ((writer, judge.judged_by(of_other_pieces())), (writer.judged_by(judge), judge)):
        with pytest.raises(OptionError, match="must not have judges already"):
            one.judged_by(other)
    judged = writer.judged_by(judge)
    several = {"n_best": 2, "beam": 4, "diversity": 0.5}
    for options, what in (({"beam": 1}, "a beam of 1"), ({"sample": True}, "a sample"), (several, "differ")):
        with pytest.raises(OptionError, match=what):
            judged.search(**options)
    with pytest.raises(OptionError, match="saved one by one"):
        judged.save(tmp_path / "model")
    with pytest.raises(OptionError, match="without a judge, got one with a judge"):
        inspect(judged, "abc")


def test_who_cannot_read_all_to_the_end_has_no_say():
    """The beginning of a hypothesis is not the hypothesis: a long one would be judged by its first words alone."""
    writer, judge = build(), another(7)
    plain = judge.score

    def short_sighted(pairs, batch=64):
        return [
            replace(one, truncated=text == "fed a bee")
            for one, (_, text) in zip(plain(pairs, batch), pairs, strict=True)
        ]

    judge.score = short_sighted
    alone = of_other_pieces()
    for both, one in zip(ask(writer, [judge, alone]), ask(writer, [alone]), strict=True):
        assert [x.ids for x in both] == [x.ids for x in one]
        assert [x.score for x in both] == pytest.approx([x.score for x in one])
