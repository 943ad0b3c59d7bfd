"""An ensemble: a model with itself is that model; two are the log of the mean of their distributions, step by step."""

from dataclasses import replace

import pytest
import torch

from decoding.test_translator import LINES, MODEL, build, texts
from decoding.untrained import elsewhere, search_ids
from manyheads import OptionError, Transformer, ensemble
from manyheads.decoding.forced import forced
from manyheads.decoding.translator import Translator
from manyheads.text.bytepairs import BytePairs
from manyheads.text.listed import Characters
from manyheads.text.tokenizer import BEGIN, END
from manyheads.text.vocabulary import Vocabulary

TARGET = Characters("abcdef .")


def another(seed, source=TARGET, **options):
    """Another model, which writes the same pieces."""
    first = build(**options)
    torch.manual_seed(seed)
    vocabulary = Vocabulary(source, TARGET)
    model = Transformer(replace(MODEL, **options), vocabulary.sizes).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return Translator(model, vocabulary, first.recipe)


@pytest.mark.parametrize("search", [{"beam": 1}, {"beam": 3}, {"sample": True}], ids=str)
def test_a_model_with_itself_is_the_model(search):
    translator = build()
    both = ensemble([translator, translator, translator])
    assert texts(both, LINES, **search) == texts(translator, LINES, **search)


@torch.no_grad()
def distribution(translator, source, written):
    (ids,) = translator.vocabulary.source.encode([source])
    return translator.model(torch.tensor([[*ids, END]]), torch.tensor([[BEGIN, *written]]))[0, -1].softmax(-1)


@pytest.mark.parametrize("source", [TARGET, BytePairs([("Ġ", "a"), ("e", "d")])], ids=lambda t: t.kind)
@torch.no_grad()
def test_two_models_are_the_mean_of_their_probabilities_step_by_step(source):
    one, other = build(), another(7, source)
    both = ensemble([one, other]).model
    lines = ["a bad cafe", "bee"]
    ids = [[*row, END] for row in one.vocabulary.source.encode(lines)]
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
    cache = both.start(both.encode(padded))
    tokens, written = torch.full((2, 1), BEGIN), [[], []]
    for _ in range(5):
        log_p = both.step(tokens, cache)[:, -1]
        for row, line in enumerate(lines):
            mean = (distribution(one, line, written[row]) + distribution(other, line, written[row])) / 2
            assert torch.allclose(log_p[row].exp(), mean, atol=1e-5)
        tokens = log_p[:, END + 1 :].argmax(-1, keepdim=True) + END + 1
        written = [[*before, token] for before, token in zip(written, tokens[:, 0].tolist(), strict=True)]
    assert torch.allclose(
        both(padded, torch.cat([torch.full((2, 1), BEGIN), torch.tensor(written)[:, :-1]], 1))[:, -1], log_p, atol=1e-4
    )


@torch.no_grad()
def test_what_an_ensemble_says_is_as_likely_as_it_scores_it():
    both = ensemble([build(), another(7)])
    for line in LINES[:2]:
        (source,) = both.read([line])
        (found,) = search_ids(both, source, both.search(beam=3))
        for one in found:
            (score,) = forced(both.model, source, [[*one.ids, END] if one.finished else one.ids])
            assert one.log_probability == pytest.approx(score, abs=1e-3)


def test_ensembles_do_not_depend_on_the_batch_nor_on_who_is_named_first():
    one, other = build(), another(7)
    expected = texts(ensemble([one, other]), LINES, beam=3, batch=1)
    assert texts(ensemble([one, other]), LINES, beam=3, batch=7) == expected
    assert texts(ensemble([other, one]), LINES, beam=3, batch=7) == expected
    assert expected not in (texts(one, LINES, beam=3), texts(other, LINES, beam=3))


def test_the_shortest_table_of_positions_bounds_all():
    both = ensemble([build(positions="learned", max_length=60), another(7, positions="learned", max_length=5)])
    assert both.longest == 5
    assert len(list(both.translate(["a bad cafe", "abcdefabcdef"]))) == 2


def test_alignments_are_those_of_the_first():
    one, other = build(), another(7)
    pairs = [("a bad cafe", "bee")]
    assert ensemble([one, other]).align(pairs, "0.1") == one.align(pairs, "0.1")


def test_what_cannot_be_an_ensemble_is_refused(tmp_path):
    with pytest.raises(OptionError, match="must have the same target vocabulary, got 264 pieces in number 2"):
        ensemble([build(), build(tokenizer=Characters("abcdef"))])
    with pytest.raises(
        OptionError,
        match="learned positions must have the same source vocabulary as the first model of its ensemble, got a different one in number 2",
    ):
        ensemble([build(), another(7, BytePairs([("Ġ", "a")]), positions="learned", max_length=60)])
    both = ensemble([build(), build()])
    with pytest.raises(OptionError, match="single models"):
        ensemble([both, build()])
    with pytest.raises(OptionError, match="must have no judges"):
        ensemble([build(), build().judged_by(another(7))])
    with pytest.raises(OptionError, match="must be on the same device, got cpu and meta"):
        ensemble([build(), elsewhere(build())])
    with pytest.raises(OptionError, match="saved one by one"):
        both.save(tmp_path / "new")
