"""Wishes come true: whatever an untrained model would rather say, in every search, with every tokenizer."""

from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.untrained import build
from manyheads import InputError, OptionError
from manyheads.decoding import translator as translators
from manyheads.decoding.glossary import Glossary
from manyheads.decoding.repetition import looped
from manyheads.decoding.searching import search_all
from manyheads.decoding.wishes import Wishes

LINES = ["a bad cafe", "bee", "dad fed a deaf bee", "cab", "face a facade", "a"]
kinds = st.sampled_from(["bpe", "characters", "symbols"])
seeds = st.integers(0, 999)
beams = st.sampled_from([1, 3])
searches = st.sampled_from([{"beam": 1}, {"beam": 3}, {"sample": True}])
texts = st.text("abcdé .-x", max_size=7)
phrases = st.text("abcdé-x", min_size=1, max_size=4)
pairs_of_words = st.one_of(phrases, st.builds("{} {}".format, phrases, phrases))


def translate(translator, lines, wishes, **options):
    return list(translator.translate(lines, translator.search(**options), wishes=wishes))


def pieces(translator, text):
    return len(translator.vocabulary.target.encode([text])[0])


@settings(max_examples=30)
@given(kinds, seeds, texts, searches)
def test_outputs_begin_with_their_prefix(kind, seed, prefix, search):
    translator = build(kind, seed)
    for one in translate(translator, LINES[:3], Wishes(prefix=prefix), **search):
        assert all(alternative.text.startswith(prefix) for alternative in one.n_best)
        assert one.unmet == ()


@settings(max_examples=30)
@given(kinds, seeds, st.lists(pairs_of_words, min_size=1, max_size=3), beams)
def test_what_must_appear_appears_if_there_is_room(kind, seed, must, beam):
    """Room for all of them, spelt in bytes and one after the other, is room enough."""
    translator = build(kind, seed, max_extra=1 + sum(len(phrase.encode()) + 1 for phrase in must))
    for one in translate(translator, LINES[:1], Wishes(must=must), beam=beam):
        assert one.unmet == ()
        assert all(phrase in one.text for phrase in must)
        assert all(translator.scripts.appears(phrase, one.text) for phrase in must)


@settings(max_examples=25)
@given(kinds, seeds, pairs_of_words, beams)
def test_one_phrase_appears_whenever_the_bound_allows(kind, seed, phrase, beam):
    """The bound: exactly the pieces that the phrase takes at the start of a text, or one less."""
    translator = build(kind, seed)
    reader = translator.scripts.book.reader(phrase)
    least = reader.cost(0, reader.beginning)
    assert least <= pieces(translator, phrase)
    for bound in {max(1, least - 1), least, least + 1, least + 2}:
        for one in translate(translator, LINES[:1], Wishes(must=[phrase]), beam=beam, max_length=bound):
            assert one.unmet == (() if bound >= least else (phrase,))


@settings(max_examples=30)
@given(kinds, seeds, st.lists(pairs_of_words, min_size=1, max_size=3), searches)
def test_what_must_never_appear_never_does(kind, seed, never, search):
    """… not even in what the model likes best to say, nor where the bound cuts an output off."""
    translator = build(kind, seed)
    plain = translate(translator, LINES[:1], Wishes(), **search)
    never = [*never, *(word for one in plain for word in one.text.split()[:3] if "\ufffd" not in word)]
    for bound in (0, 4):
        for one in translate(translator, LINES[:1], Wishes(never=never), max_length=bound, **search):
            for alternative in one.n_best:
                assert not any(translator.scripts.appears(phrase, alternative.text) for phrase in never)
            assert one.unmet == ()


@settings(max_examples=25)
@given(kinds, seeds, texts, st.lists(phrases, max_size=2), st.lists(phrases, max_size=2), beams)
def test_all_wishes_together(kind, seed, prefix, must, never, beam):
    """What must never be comes first; what is then missing is named."""
    translator = build(kind, seed, max_extra=24)
    wishes = Wishes(prefix, must, never)
    if any(translator.scripts.appears(phrase, prefix + "_") for phrase in never):
        with pytest.raises(InputError, match="a prefix must not contain a forbidden phrase"):
            translate(translator, LINES[:1], wishes, beam=beam)
        return
    for one in translate(translator, LINES[:1], wishes, beam=beam, no_repeat=3):
        missing = {phrase for phrase in must if not translator.scripts.appears(phrase, one.text)}
        assert set(one.unmet) == missing
        assert missing <= {m for m in must if any(n in m for n in never)}
        assert one.text.startswith(prefix)
        assert not any(translator.scripts.appears(phrase, one.text) for phrase in never)


@settings(max_examples=25)
@given(kinds, seeds, st.lists(phrases, min_size=1, max_size=2), st.lists(phrases, min_size=1, max_size=3), beams)
def test_where_room_is_short_what_must_never_appear_still_does_not(kind, seed, must, never, beam):
    translator = build(kind, seed)
    for bound in (1, 2, 3, 5):
        (one,) = translate(translator, LINES[:1], Wishes(must=must, never=never), beam=beam, max_length=bound)
        assert not any(translator.scripts.appears(phrase, one.text) for phrase in never)
        assert set(one.unmet) == {phrase for phrase in must if not translator.scripts.appears(phrase, one.text)}


@pytest.mark.parametrize("kind", ["bpe", "characters", "symbols"])
def test_a_word_may_go_on(kind):
    """ "cab" forbidden does not forbid "cabs", nor a prefix that ends in the middle of it."""
    translator = build(kind)
    (one,) = translate(translator, ["bee"], Wishes("a cab", must=["a cabs"], never=["cab"]))
    assert one.text.startswith("a cabs")
    assert one.unmet == ()
    with pytest.raises(InputError, match="a forbidden phrase, got 'cab' in 'a cab '"):
        translate(translator, ["bee"], Wishes("a cab ", never=["cab"]))


@settings(max_examples=20)
@given(kinds, seeds, st.integers(1, 3), searches)
def test_no_sequence_of_pieces_is_there_twice(kind, seed, size, search):
    translator = build(kind, seed, max_extra=30)
    for ids in searched(translator, no_repeat=size, **search):
        grams = [tuple(ids[n : n + size]) for n in range(len(ids) - size + 1)]
        assert len(set(grams)) == len(grams)


@settings(max_examples=30)
@given(kinds, seeds, st.integers(0, 12), st.integers(0, 6), searches)
def test_lengths_are_within_their_bounds(kind, seed, least, more, search):
    translator = build(kind, seed)
    for ids, finished in searched(translator, min_length=least, max_length=least + more, ends=True, **search):
        assert len(ids) + finished >= min(least, 1 if least + more == 0 else least)
        assert len(ids) + finished <= (least + more or 100)


def searched(translator, ends=False, **options):
    """The ids of what is found for LINES."""
    found, search = [], translator.search(**options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translators, "search_all", lambda *given: found.extend(outputs := search_all(*given)) or outputs)
        list(translator.translate(LINES, search))
    hypotheses = [h for outputs in found for h in outputs]
    assert len(hypotheses) >= len(LINES)
    return [(h.ids, h.finished) for h in hypotheses] if ends else [h.ids for h in hypotheses]


@pytest.mark.parametrize("search", [{"beam": 1}, {"beam": 4}], ids=str)
def test_lines_without_wishes_are_searched_as_if_no_line_had_any(search):
    """Bit for bit, beside lines that have some; and where no line has any, nothing is made for it."""
    translator = build(max_extra=20)
    expected = translate(translator, LINES, Wishes(), **search)
    assert "scripts" not in vars(translator)
    twice = [line for line in LINES for _ in range(2)]
    mixed = translate(translator, twice, [Wishes(), Wishes(prefix="b")] * len(LINES), **search)
    assert mixed[::2] == expected
    assert all(one.text.startswith("b") for one in mixed[1::2])


@pytest.mark.parametrize("search", [{"sample": True}, {"beam": 3}], ids=str)
@pytest.mark.parametrize("breaks", [False, True])
def test_scripts_keep_no_tables_after_their_search(search, breaks, monkeypatch):
    """A block has thousands of scripts, and a table has a row for every piece."""
    translator, made, filled = build(), [], 0
    script, step = translator.script, translator.model.step

    def watched(*given):
        nonlocal filled
        filled = max(filled, *(one.options_of.cache_info().currsize for one in made))
        if breaks and filled > 1:
            raise KeyboardInterrupt
        return step(*given)

    monkeypatch.setattr(translator, "script", lambda *given: made.append(one := script(*given)) or one)
    monkeypatch.setattr(translator.model, "step", watched)
    with pytest.raises(KeyboardInterrupt) if breaks else nullcontext():
        translate(translator, LINES, Wishes(never=["b"]), **search)
    assert filled > 1
    assert [one.options_of.cache_info().currsize for one in made] == [0] * len(LINES)


# ── parts and terms ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_a_line_in_parts_each_owes_its_own():
    translator = build("characters", pieces=8, max_extra=12)
    wishes = Wishes("ab", ["x"], ["a"], Glossary(must=(("bee", "bzz"), ("cab", "car")), never=(("fed", "f"),)))
    (one,) = translate(translator, ["bee a cab. dad fed"], wishes)
    assert one.parts > 2
    assert one.unmet == ()
    assert one.text.startswith("ab")
    assert all(translator.scripts.appears(phrase, one.text) for phrase in ("x", "bzz", "car"))
    assert not translator.scripts.appears("a", one.text)


def test_what_never_may_be_and_is_where_parts_meet_is_named():
    """Parts do not know of each other."""
    translator = build("characters", pieces=8)
    everywhere = Glossary(must=(("bee", "b"), ("cab", "b"), ("dad", "b")))
    (one,) = translate(translator, ["bee a cab. dad fed"], Wishes(never=["b b"], glossary=everywhere), max_length=1)
    assert one.text == "b b b"
    assert one.unmet == ("b b",)


def test_what_the_glossary_forbids_in_one_part_another_may_hold():
    translator = build("characters", pieces=8)
    terms = Glossary(must=(("cab", "b"), ("dad", "b")), never=(("bee", "b"),))
    (one,) = translate(translator, ["bee a cab. dad fed"], Wishes(glossary=terms), max_length=1)
    assert one.parts == 3
    assert one.text.endswith(" b b")
    assert one.unmet == ()
    (one,) = translate(translator, ["bee a cab. dad fed"], Wishes(never=["b b"], glossary=terms), max_length=1)
    assert one.unmet == ("b b",), "what is wished for the line holds for the line"


def test_terms_are_those_of_the_source():
    terms = Glossary(must=(("bee", "bzz"), ("a bad", "ab")), never=(("bee", "a"),))
    translator = build(max_extra=16)
    found = translate(translator, ["bee", "bees", "a bad bee", "a bad"], Wishes(glossary=terms))
    has = [[translator.scripts.appears(p, one.text) for p in ("bzz", "ab")] for one in found]
    assert [has[0][0], *has[2], has[3][1]] == [True] * 4
    assert not any(translator.scripts.appears("a", found[n].text) for n in (0, 2))
    plain = translate(translator, ["bees"], Wishes())
    assert found[1].text == plain[0].text, "bees are no bee"


# ── what cannot be ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_phrases_that_do_not_fit_are_left_out_from_the_end():
    translator = build("characters")
    (one,) = translate(translator, ["a"], Wishes(must=["abcd", "xx"]), max_length=5)
    assert one.text.startswith("abcd")
    assert one.unmet == ("xx",)


def test_a_phrase_inside_one_that_cannot_be_is_still_owed():
    translator = build("characters")
    (one,) = translate(translator, ["a"], Wishes(must=["x", "b x"], never=["b x"]), max_length=6)
    assert one.unmet == ("b x",)
    (one,) = translate(translator, ["a"], Wishes(must=["x", "bcd x"]), max_length=3)
    assert one.unmet == ("bcd x",)
    (one,) = translate(translator, ["a"], Wishes(must=["x", "bcd x"]), max_length=5)
    assert one.unmet == ()


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"must": "cat"}, "must takes a list of phrases, got 'cat'"),
        ({"never": [3]}, "a phrase must be text, got 3"),
        ({"must": [""]}, "a phrase must start and end with something other than a space, got ''"),
        ({"never": [" cat"]}, "a phrase must start and end with something other than a space, got ' cat'"),
        ({"never": ["a\nb"]}, "a text must be one line"),
        ({"prefix": "a\nb"}, "a text must be one line"),
        ({"prefix": 3}, "a prefix must be text, got 3"),
        ({"must": ["x" * 201]}, "a phrase may have at most 200 characters, got 201"),
        ({"must": ["\ufffd"]}, "a phrase must be valid Unicode"),
    ],
)
def test_wishes_that_cannot_be_are_refused(wishes, message):
    with pytest.raises((OptionError, InputError)) as error:
        Wishes(**wishes)
    assert message in str(error.value)


def test_wishes_are_as_many_as_lines():
    translator = build()
    with pytest.raises(InputError, match="wishes for every line, got 1 for the next 2"):
        translate(translator, ["a", "b"], [Wishes()])
    with pytest.raises(InputError, match="as many lines as wishes, got 1 lines"):
        translate(translator, ["a"], [Wishes(), Wishes()])
    with pytest.raises(OptionError, match="must be Wishes, got 'ab'"):
        translate(translator, ["a"], ["ab"])
    with pytest.raises(OptionError, match="need a beam search, got 'ab' and sample"):
        translate(translator, ["a"], Wishes(must=["ab"]), sample=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": True, "alternatives": 2}, "need a beam search, not samples"),
        ({"n_best": 2, "alternatives": 2}, "leave out n_best and diversity"),
        ({"diversity": 0.5}, "set n_best to 2 or more"),
        ({"min_length": 5, "max_length": 4}, "min_length must be at most max_length, got 5 and 4"),
        ({"no_repeat": -1}, "no_repeat must be between 0 and 1000, got -1"),
    ],
)
def test_searches_that_make_no_sense_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        build().search(**options)


# ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(3, 9), max_size=5), st.lists(st.integers(3, 9), min_size=1, max_size=10), st.integers(1, 9))
def test_a_loop_is_a_loop(start, again, rounds):
    ids = start + again * rounds
    enough = rounds >= 4 and len(again) * rounds >= 8
    assert looped(ids) or not enough
    if len(set(ids)) == len(ids) or len(ids) < 8:
        assert not looped(ids)


def test_very_very_good_is_no_loop():
    assert not looped([5, 5, 5, 6])
    assert not looped([5, 6, 5, 6, 5, 6])
    assert not looped([])
    assert looped([1, 2, *[5, 6] * 4])


def test_loops_are_told():
    translator = build("characters", max_extra=30)
    translator.model.step = lambda tokens, cache, step=translator.model.step: favourite(step(tokens, cache))
    plain, guarded = (translate(translator, ["a"], Wishes(), no_repeat=n)[0] for n in (0, 2))
    assert plain.looped
    assert not guarded.looped


def favourite(logits):
    logits[..., 100] += 50
    return logits
