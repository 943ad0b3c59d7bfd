"""Text in, text out: what a line gives depends on the line alone, and every line gives something."""

import random
from dataclasses import replace

import pytest
import torch

from decoding.untrained import search_ids
from manyheads import OptionError, Transformer, TransformerConfig
from manyheads.decoding.forced import forced
from manyheads.decoding.translator import Translator
from manyheads.recipe import DataConfig, DecodeConfig, Recipe
from manyheads.text.bytepairs import BytePairs
from manyheads.text.listed import Characters
from manyheads.text.tokenizer import BEGIN, END
from manyheads.text.vocabulary import Vocabulary

MODEL = TransformerConfig(width=16, layers=1, heads=2, feedforward=32, dropout=0.0, tie="none", norm="pre")
LINES = ["a bad cafe", "bee", "", "dad fed a deaf bee", "cab", "face a facade", "   ", "a", "bead", "a bad cafe."]


def build(pieces=64, tokenizer=None, **options):
    """A translator that was never trained: it writes nonsense, but not the same for every line."""
    torch.manual_seed(3)
    vocabulary = Vocabulary(tokenizer or Characters("abcdef ."))
    config = replace(MODEL, **options)
    model = Transformer(config, vocabulary.sizes).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    data, decode = DataConfig(max_length=pieces), DecodeConfig(beam=2, max_ratio=1.0, max_extra=4)
    return Translator(model, vocabulary, Recipe(model=config, data=data, decode=decode))


def texts(translator, lines, **options):
    return [t.text for t in translator.translate(lines, translator.search(**options))]


SEARCHES = [{"beam": 1}, {"beam": 3, "length_penalty": 1.0}]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize(
    "tokenizer", [Characters("abcdef ."), BytePairs([("Ġ", "a"), ("e", "d")])], ids=lambda t: t.kind
)
def test_batches_and_order_change_nothing(search, tokenizer):
    translator = build(tokenizer=tokenizer)
    expected = texts(translator, LINES, batch=1, **search)
    assert len(set(expected)) > 5
    for batch in (7, 64):
        order = random.Random(batch).sample(range(len(LINES)), len(LINES))
        found = texts(translator, [LINES[n] for n in order], batch=batch, **search)
        assert found == [expected[n] for n in order]


def test_samples_follow_the_number_of_the_line():
    translator = build()
    expected = texts(translator, LINES, sample=True, batch=1)
    assert texts(translator, LINES, sample=True, batch=7) == expected
    search = translator.search(sample=True)
    assert [t.text for t in translator.translate(LINES, search, chunk=3)] == expected
    assert texts(translator, LINES, sample=True, seed=2) != expected


def test_parts_of_a_line_are_not_drawn_alike():
    translator = build(pieces=8)
    (found,) = translator.translate([8 * "abca"], translator.search(sample=True))
    assert found.parts == 4
    alone = texts(translator, ["abcaabca"], sample=True)
    assert found.text.startswith(alone[0])
    assert found.text != " ".join(8 * alone)


ODD = ["", " ", "\t", "a\tb", "a\u2028b", "\u2028", "a\0b", "\0", "\r", "a\r", "é", "🙂", "\x85a", "\u3000", "a" * 300]


def test_every_output_belongs_to_its_input():
    translator = build()
    found = list(translator.translate(ODD))
    assert len(found) == len(ODD)
    for line, one in zip(ODD, found, strict=True):
        (alone,) = translator.translate([line])
        assert one.text == alone.text
        assert "\n" not in one.text
        assert (one.parts == 0) == (not line.strip())
    assert all(one.text == "" for one in found if one.parts == 0)


def test_a_text_keeps_its_lines():
    translator = build()
    first, second = translator(["a bad cafe", "bee"])
    assert translator("a bad cafe") == first
    assert translator("a bad cafe\n\nbee\n") == f"{first}\n\n{second}\n"
    assert translator(["a bad cafe\nbee", "", "bee"]) == [f"{first}\n{second}", "", second]
    assert translator(("bee",)) == [second]
    assert translator(line for line in ["bee", "a bad cafe"]) == [second, first]
    assert translator([]) == []
    assert translator("") == ""


def test_lines_are_read_as_they_come():
    """A chunk at a time: who types a line gets its translation before the next one is asked for."""
    asked = []
    lines = (asked.append(line) or line for line in LINES)
    translations = build().translate(lines, chunk=2)
    next(translations)
    assert asked == LINES[:2]
    assert len(list(translations)) == len(LINES) - 1


# ── long lines ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_line_too_long_for_one_pass_is_translated_in_parts():
    translator = build(pieces=12)
    (found,) = translator.translate(["A bad cafe. A deaf bee. A face."])
    parts = ["A bad cafe.", "A deaf bee.", "A face."]
    assert found.parts == len(parts)
    assert found.text == " ".join(translator(parts))
    alone = list(translator.translate(parts))
    assert found.score == pytest.approx(sum(one.score for one in alone), abs=1e-4)
    assert [one.parts for one in alone] == [1] * 3
    assert len(found.n_best) == 1


@pytest.mark.parametrize(
    "tokenizer", [Characters("abcdef ."), BytePairs([("a", "a"), ("aa", "aa")])], ids=lambda t: t.kind
)
def test_no_part_has_more_pieces_than_the_model_was_trained_to_read(tokenizer):
    """Wherever the dense ones are: an average over the line says nothing about its end."""
    translator = build(pieces=10, tokenizer=tokenizer)
    for line in ("a" * 400 + "🙂" * 40, "🙂 a" * 30, "🙂🙂", "éé", "a" * 11, "🙂" + "a" * 600 + " é é é é"):
        (parts,) = translator.read([line])
        assert all(1 < len(ids) <= 11 for ids in parts)
        assert all(ids[-1] == END for ids in parts)
        assert tokenizer.decode(i for ids in parts for i in ids).replace(" ", "") == line.replace(" ", "")


def test_two_megabytes_are_cut_into_parts():
    translator = build(pieces=200)
    (parts,) = translator.read(["A deaf bee faced a bad cafe. " * 70_000])
    assert max(map(len, parts)) <= 201
    assert min(map(len, parts)) > 20
    assert sum(map(len, parts)) == pytest.approx(29 * 70_000, rel=0.05)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_short_table_of_learned_positions_is_enough(length, beam):
    translator = build(positions="learned", max_length=length)
    lines = ["a bad cafe. a deaf bee.", "🙂é🙂", "", "a"]
    (long, odd, blank, short) = translator.translate(lines, translator.search(beam=beam, max_extra=100))
    assert blank.text == ""
    assert long.parts >= len(lines[0].replace(" ", "")) / max(1, length - 1)
    assert odd.parts in (2, 3)
    assert short.parts == 1
    (found,) = search_ids(translator, [[END]], translator.search(beam=beam, max_extra=100))
    assert all(len(h.ids) <= length for h in found)
    (score,) = translator.score([("a bad cafe", "a deaf bee")])
    assert (score.tokens, score.truncated) == (length, True)


def say(translator, word, much):
    """From now on the model likes to write this word (or, if it is less than nothing, does not)."""
    step = translator.model.step
    translator.model.step = lambda tokens, cache: (
        step(tokens, cache) + much * torch.eye(translator.vocabulary.sizes[1])[word]
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_what_the_bound_cut_off_says_so(beam):
    translator = build()
    say(translator, END, -50)
    search = translator.search(beam=beam, max_ratio=2.0, max_extra=3)
    (one, many) = translator.translate(["bee", "a" * 200], search)
    assert one.truncated
    assert many.truncated
    assert many.parts > 1
    (found,) = search_ids(translator, [[7, 8, 9, END]], search)
    assert [len(h.ids) for h in found] == [2 * 4 + 3] * beam
    say(translator, END, 100)
    assert not any(one.truncated for one in translator.translate(["bee", "a" * 200], search))


# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_options_are_those_of_the_recipe_unless_said():
    translator = build()
    assert (translator.search().beam, translator.search().max_extra) == (2, 4)
    assert translator.search(n_best=7).beam == 7
    assert translator.search(sample=True).beam == 1
    assert translator.search(beam=5, max_ratio=3).max_ratio == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 3}, "'beams' is not an option of a search"),
        ({"sample": True, "beam": 3}, "sampling draws one hypothesis at a time, got beam 3: set beam to 1"),
        ({"n_best": 3, "beam": 2}, "n_best needs a beam at least as large, got 3 and a beam of 2"),
        ({"top_k": 3}, "top_k needs sample (--sample), got 3 without it"),
        ({"n_best": None}, "n_best must be a whole number, got None"),
        ({"n_best": "3"}, "n_best must be a whole number, got '3'"),
        ({"beam": 0}, "beam must be between 1 and 1000, got 0"),
        ({"batch": 0}, "batch must be between 1 and 65536, got 0"),
    ],
    ids=str,
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(OptionError) as error:
        build()("bee", **options)
    assert error.value.message == message


def test_an_unknown_option_is_refused_with_the_nearest_one():
    with pytest.raises(OptionError) as error:
        build()("bee", beams=3)
    assert error.value.hint == "did you mean 'beam'?"


def test_as_many_alternatives_as_asked_for():
    translator = build()
    (found, blank) = translator.translate(["a bad cafe", " "], translator.search(n_best=4))
    assert len(found.n_best) == 4
    assert [one.score for one in found.n_best] == sorted((one.score for one in found.n_best), reverse=True)
    assert (found.text, found.score) == (found.n_best[0].text, found.n_best[0].score)
    assert [one.text for one in blank.n_best] == [""]


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_in_the_mode_it_was_in(training):
    translator = build(dropout=0.5)
    expected = translator("a bad cafe")
    translator.model.train(training)
    assert [translator("a bad cafe") for _ in range(3)] == [expected] * 3, "and there is no dropout"
    translator.score([("a", "b")])
    assert all(module.training == training for module in translator.model.modules())
    translator.model.step = None
    with pytest.raises(TypeError):
        translator("bee")
    assert translator.model.training == training, "whatever happens"


# ── forced scores ───────────────────────────────────────────────────────────────────────────────────────────────────

PAIRS = [("a bad cafe", "bee"), ("", "a"), ("bee", ""), ("dad", "a deaf bee. " * 5), ("é🙂", "ed"), ("a" * 90, "a")]


@torch.no_grad()
def by_hand(translator, source, target):
    tokenizer = translator.vocabulary.source
    (source,), (target,) = tokenizer.encode([source]), tokenizer.encode([target])
    log_p = translator.model(torch.tensor([[*source, END]]), torch.tensor([[BEGIN, *target]]))[0].log_softmax(-1)
    return sum(log_p[n, word].item() for n, word in enumerate([*target, END]))


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_scores_are_sums_of_log_probabilities(batch):
    translator = build()
    scores = translator.score(PAIRS, batch=batch)
    assert [s.log_probability for s in scores] == pytest.approx(
        [by_hand(translator, *pair) for pair in PAIRS], abs=1e-3
    )
    assert [s.tokens for s in scores] == [4, 2, 1, 61, 3, 2]
    assert not any(s.truncated for s in scores)
    assert translator.score([]) == []


@pytest.mark.parametrize("beam", [1, 4])
def test_a_hypothesis_is_as_likely_as_its_forced_score(beam):
    translator = build()
    checked = 0
    for line in ["a bad cafe", "bee", "dad fed a deaf bee", "cab", "face"]:
        (source,) = translator.read([line])
        (found,) = search_ids(translator, source, translator.search(beam=beam))
        for h in found:
            with torch.no_grad():
                (score,) = forced(translator.model, source, [[*h.ids, END] if h.finished else h.ids])
            assert h.log_probability == pytest.approx(score, abs=1e-3)
            checked += 1
    assert checked >= 5


@pytest.mark.parametrize("pairs", [("a", "b"), [("a",)], ["ab"], [("a", 3)], [("a", "b", "c")]], ids=str)
def test_a_pair_is_a_source_and_a_target(pairs):
    """A text of two letters is none, though it has two parts."""
    for ask in (build().score, build().align):
        with pytest.raises(OptionError, match="a pair must be a source and a target"):
            ask(pairs)
