"""Guided search against all outputs that satisfy the wishes, against plain search, and against the model's own scores."""

from itertools import product, takewhile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.untrained import build, favour
from manyheads.decoding.beam import beam_search
from manyheads.decoding.forced import forced as forced_scores
from manyheads.decoding.guided import Groups, guided_beam
from manyheads.decoding.hypothesis import length_penalty
from manyheads.decoding.script import Script
from manyheads.decoding.wishes import Wishes
from manyheads.text.tokenizer import BEGIN, END

LETTERS, LIMIT = "ab ", 4
seeds = st.integers(0, 999)


@torch.no_grad()
def forced(translator, source, ids):
    return forced_scores(translator.model, [source], [[*ids, END]])[0]


def twice(ids, size):
    grams = [tuple(ids[n : n + size]) for n in range(len(ids) - size + 1)]
    return len(set(grams)) < len(grams)


@torch.no_grad()
def glued(translator, source, wishes, ids):
    """Does a word go on in it that must never be, where the model gives less than a tenth to that?"""
    text, (letters,) = translator.vocabulary.target.decode, translator.vocabulary.target.encode(["ab"])
    p = translator.model(torch.tensor([source]), torch.tensor([[BEGIN, *ids]]))[0].softmax(-1)[:, letters].sum(-1)
    hanging = [n for n in range(len(ids)) if any(translator.scripts.appears(x, text(ids[:n])) for x in wishes.never)]
    return any(p[n] < 0.1 for n in hanging)


def satisfying(translator, wishes, least=0, size=0):
    """All outputs of the letters that are as wished for."""
    tokenizer, scripts = translator.vocabulary.target, translator.scripts
    (letters,) = tokenizer.encode([LETTERS])
    for ids in (ids for n in range(LIMIT) for ids in product(letters, repeat=n)):
        text = tokenizer.decode(ids)
        fits = len(ids) + 1 >= least and not (size and twice(ids, size)) and text.startswith(wishes.prefix)
        holds = all(scripts.appears(phrase, text) for phrase in wishes.must)
        if fits and holds and not any(scripts.appears(phrase, text) for phrase in wishes.never):
            yield ids


wished = st.one_of(
    st.builds(lambda phrase: Wishes(must=[phrase]), st.sampled_from(["a", "ab", "b", "a b", "aba", "b a"])),
    st.builds(
        lambda prefix, never: Wishes(prefix, never=never),
        st.sampled_from(["", "a", "b", "a ", "ab"]),
        st.lists(st.sampled_from(["ab", "a b", "bb", "ba"]), max_size=2).filter(lambda never: "ab" not in never),
    ),
)


@settings(max_examples=25)
@given(seeds, wished, st.sampled_from([0.0, 1.0]), st.sampled_from([0, 2, 3]), st.sampled_from([0, 1, 2, 3]))
def test_a_beam_with_room_for_all_is_exhaustive_search(seed, wishes, alpha, least, size):
    """It finds exactly the outputs that satisfy the wishes, and the best of them first."""
    translator, source = build("characters", seed), [5, 200, END]
    favour(translator, LETTERS)
    script = Script(translator.scripts, wishes, LIMIT, LIMIT, min_length=least, no_repeat=size)
    with torch.no_grad():
        (found,) = guided_beam(translator.model, torch.tensor([source]), [script], beam=3**3 * 4, alpha=alpha)
    expected = {
        ids: forced(translator, source, ids) / length_penalty(len(ids) + 1, alpha)
        for ids in satisfying(translator, wishes, least, size)
        if not glued(translator, source, wishes, ids)
    }
    letters = set(translator.vocabulary.target.encode([LETTERS])[0])
    assert {tuple(h.ids): h.score for h in found if letters >= set(h.ids)} == pytest.approx(expected, abs=1e-3)
    if expected:
        assert found[0].score == pytest.approx(max(expected.values()), abs=1e-3)


@settings(max_examples=20)
@given(seeds, st.sampled_from([1, 3, 5]), st.sampled_from(["bpe", "characters", "symbols"]))
@torch.no_grad()
def test_a_script_without_wishes_changes_nothing(seed, beam, kind):
    """Not a bit."""
    translator = build(kind, seed)
    source, limits = torch.randint(END, 250, (3, 6)), [4, 12, 9]
    scripts = [Script(translator.scripts, Wishes(), limit, 1_000) for limit in limits]
    found = guided_beam(translator.model, source, scripts, beam=beam, alpha=0.6)
    assert found == beam_search(translator.model, source, limits, beam=beam, alpha=0.6)


WISHES = [
    Wishes(), Wishes(prefix="ca"), Wishes(must=["bad cab"]), Wishes(never=["a", "b"]), Wishes("be", ["dad", "x"], ["é"]),
    Wishes(must=["a", "b", "c"]),
]  # fmt: skip
LINES = ["a bad cafe", "bee", "dad fed a deaf bee", "cab", "face a facade", "a"]


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1}, {"beam": 3}, {"beam": 4, "n_best": 2, "diversity": 1.0}, {"beam": 2, "alternatives": 3},
        {"beam": 2, "no_repeat": 2, "min_length": 9},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_line_gives_does_not_depend_on_its_batch(options):
    translator = build(max_extra=14)
    together = list(translator.translate(LINES, translator.search(**options), wishes=WISHES))
    for order in ([1], [2, 4], [5, 3, 0]):
        lines, wishes = [LINES[n] for n in order], [WISHES[n] for n in order]
        found = translator.translate(lines, translator.search(batch=2, **options), wishes=wishes)
        for n, one in zip(order, found, strict=True):
            assert [a.text for a in one.n_best] == [a.text for a in together[n].n_best]
            assert [a.score for a in one.n_best] == pytest.approx([a.score for a in together[n].n_best], abs=1e-4)


def test_draws_within_wishes_follow_the_line():
    translator = build(max_extra=14)
    wishes = [Wishes(prefix="ca"), Wishes(never=["a"])] * 3

    def drawn(chunk=6, **options):
        search = translator.search(sample=True, no_repeat=2, **options)
        return [one.text for one in translator.translate(LINES, search, wishes=wishes, chunk=chunk)]

    assert drawn(batch=2, chunk=4) == drawn()
    assert all(a != b for a, b in zip(drawn(), drawn(seed=2), strict=True))


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def searched(translator, lines, groups, beam, wishes=WISHES[0]):
    sources = [[*ids, END] for ids in translator.vocabulary.source.encode(lines)]
    source = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sources], batch_first=True)
    scripts = [Script(translator.scripts, wishes, 12, 100) for _ in lines]
    with torch.no_grad():
        return sources, guided_beam(translator.model, source, scripts, beam=beam, alpha=0.6, groups=groups)


@settings(max_examples=10)
@given(seeds, st.integers(1, 3), st.sampled_from([0.5, 5.0]))
def test_scores_of_diverse_outputs_are_the_true_ones(seed, beam, diversity):
    translator = build("characters", seed)
    sources, found = searched(translator, LINES[:3], Groups(4, diversity=diversity), beam)
    for source, outputs in zip(sources, found, strict=True):
        assert len({tuple(h.ids) for h in outputs}) == len(outputs)
        assert [h.score for h in outputs] == sorted((h.score for h in outputs), reverse=True)
        for h in outputs:
            if h.finished:
                assert h.log_probability == pytest.approx(forced(translator, source, h.ids), abs=1e-3)
                assert h.score == pytest.approx(h.log_probability / length_penalty(len(h.ids) + 1, 0.6))


def test_the_first_group_is_the_plain_search_and_a_high_price_makes_all_others_differ():
    translator = build("characters")
    _, plain = searched(translator, LINES, Groups(), 3)
    _, found = searched(translator, LINES, Groups(4, diversity=1_000.0), 3)
    for best, outputs in zip(plain, found, strict=True):
        assert best[0].ids in [h.ids for h in outputs]
        columns = zip(*([*h.ids, END] if h.finished else h.ids for h in outputs), strict=False)
        assert all(len(set(column)) == len(column) for column in columns), "no two have a word at the same place"


def test_diversity_makes_outputs_differ_more():
    translator = build("characters", max_extra=14)

    def shared(diversity):
        _, found = searched(translator, LINES, Groups(3, diversity=diversity), 2)
        return sum(
            a == b
            for outputs in found
            for h in outputs
            for g in outputs
            if h is not g
            for a, b in zip(h.ids, g.ids, strict=False)
        )

    assert shared(20.0) < shared(1.0) < shared(0.05)


def common(several):
    """What all begin with."""
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*several, strict=False))
    return [column[0] for column in columns]


@pytest.mark.parametrize("prefix", ["", "ca", "a b ", "é a"])
@pytest.mark.parametrize("kind", ["bpe", "characters", "symbols"])
@torch.no_grad()
def test_alternatives_are_the_likeliest_next_tokens_each_completed(kind, prefix):
    """… as a search does that is forced to begin with one of them."""
    translator = build(kind)
    wishes = Wishes(prefix)
    (source,), (found,) = searched(translator, LINES[:1], Groups(4, fork=True), 2, wishes)
    script = Script(translator.scripts, wishes, 12, 100)
    ids, spelling = common([h.ids for h in found]), translator.scripts.spelling
    written, context = spelling.write(ids)
    left = prefix.encode()[len(written) :]
    assert ids[: len(script.prefix.forced)] == script.prefix.forced
    log_p = translator.model(torch.tensor([source]), torch.tensor([[BEGIN, *ids]]))[0, -1].log_softmax(-1)
    fits = [i for i in range(END + bool(left), len(log_p)) if spelling.added[context][i].startswith(left)]
    likeliest = sorted(fits, key=lambda i: -log_p[i])[:4]
    assert {[*h.ids, END][len(ids)] for h in found} == set(likeliest)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    assert all(translator.vocabulary.target.decode(h.ids).startswith(prefix) for h in found)
