"""Alignments: against an explicit rule, against links made by hand, and in the place where the words are."""

import gzip
import json

import numpy as np
import pytest
import torch
from benchmarks.alignments import Aligned, attributed, diagonal, error_rate, read, read_gold
from hypothesis import given
from hypothesis import strategies as st

from decoding.test_translator import build
from manyheads import InputError, OptionError, Translator, align, find_reading
from manyheads.decoding.alignment import cross_weights, link_words, read_weights
from manyheads.decoding.find_reading import foretold, reading_of
from manyheads.decoding.reading import Reading, every_reading
from manyheads.modelfolder import bundled, dump_recipe
from manyheads.recipe import DecodeConfig, load_recipe, recipe_from_text
from manyheads.text.bytepairs import BytePairs
from manyheads.text.listed import Characters, Symbols
from manyheads.text.tokenizer import BEGIN, END
from manyheads.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def de_en():
    return Translator.load("de-en", "cpu")


@pytest.fixture(scope="module")
def gold():
    return read_gold()


# ── quality ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_links_made_by_hand_are_of_words_that_are_there(gold):
    dev = gzip.decompress(bundled("tatoeba/dev.tsv.gz").read_bytes()).decode().split("\n")
    for one in gold:
        assert f"{one.source}\t{one.target}" in dev
        sizes = [len(text.split(" ")) for text in (one.source, one.target)]
        assert all(s < sizes[0] and t < sizes[1] for s, t in one.possible)
        assert one.sure <= one.possible
    assert len({one.source for one in gold}) == len(gold) == 50


def test_possible_links_are_no_faults_and_sure_ones_must_be_there():
    gold = [Aligned("a b", "c d", {(0, 0), (1, 1)}, {(0, 0), (1, 1), (0, 1)})]
    assert error_rate(gold, [[(0, 0), (1, 1)]]) == error_rate(gold, [[(0, 0), (1, 1), (0, 1)]]) == 0
    assert error_rate(gold, [[(0, 0)]]) == pytest.approx(100 * (1 - 2 / 3))
    assert error_rate(gold, [[(0, 0), (1, 1), (1, 0)]]) == pytest.approx(100 * (1 - 4 / 5))


def test_alignments_are_like_those_made_by_hand(de_en, gold):
    straight = error_rate(gold, [diagonal(one) for one in gold])
    assert read(de_en, gold) < 15 < 40 < straight


@pytest.mark.slow
def test_what_is_owed_aligns_too_though_not_as_well(de_en, gold):
    few = gold[:12]
    assert read(de_en, few) < attributed(de_en, few, "value-zeroing") < error_rate(few, [diagonal(one) for one in few])


@pytest.mark.slow
def test_what_is_read_is_among_the_best_there_is_though_nobody_has_seen_the_answers(de_en, gold):
    every = every_reading(de_en.recipe.model.depth, de_en.recipe.model.heads)
    rates = {str(reading): read(de_en, gold, str(reading)) for reading in every}
    print(sorted(rates.items(), key=lambda item: item[1]))
    assert rates[de_en.recipe.decode.alignment] <= sorted(rates.values())[1]


@pytest.mark.slow
def test_the_bundled_model_names_what_the_search_finds(de_en):
    rows = gzip.decompress(bundled("tatoeba/dev.tsv.gz").read_bytes()).decode().split("\n")[:-1]
    assert str(find_reading(de_en, [tuple(row.split("\t")) for row in rows])) == de_en.recipe.decode.alignment


def test_the_bundled_recipe_is_as_we_write_it():
    """But for keys that are newer than it."""
    stored = bundled("de-en/recipe.toml").read_text(encoding="utf-8")
    written = dump_recipe(recipe_from_text(stored, "de-en")).decode().split("\n")
    assert [line for line in written if line in stored.split("\n")] == stored.split("\n")


# ── from weights to links ───────────────────────────────────────────────────────────────────────────────────────────

sides = st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=6)


def closed(units):
    """Units are numbered without gaps."""
    there = sorted({unit for unit in units if unit is not None})
    return [None if unit is None else there.index(unit) for unit in units]


@given(sides, sides, st.integers(0, 999))
def test_each_word_is_linked_to_the_one_with_the_largest_sum(source, target, seed):
    source, target = closed(source), closed(target)
    weights = torch.rand(len(target), len(source), generator=torch.Generator().manual_seed(seed))
    sums = {}
    for t, word in enumerate(target):
        for s, other in enumerate(source):
            if word is not None and other is not None:
                sums[other, word] = sums.get((other, word), 0) + weights[t, s].double().item()
    expected = {max((p for p in sums if p[1] == word), key=sums.get) for _, word in sums}
    expected |= {max((p for p in sums if p[0] == word), key=sums.get) for word, _ in sums}
    assert link_words(weights, source, target) == tuple(sorted(expected))


@torch.no_grad()
def test_the_weights_are_those_of_writing_step_by_step():
    model = build().model
    source, target = torch.tensor([[7, 8, 9, END]]), torch.tensor([[9, 8, 7]])
    layers = cross_weights(model, source, target)
    cache = model.start(model.encode(source))
    for step, token in enumerate([BEGIN, 9, 8, 7]):
        weights = []
        model.step(torch.tensor([[token]]), cache, None, weights)
        assert torch.allclose(layers[0][:, :, step], weights[0][:, :, 0], atol=1e-6)
    mine = [layer[0] for layer in layers]
    assert torch.equal(read_weights(mine, Reading(0, 1)), layers[0][0, 1, :3])
    assert torch.equal(read_weights(mine, Reading(0, 1, shift=1)), layers[0][0, 1, 1:])
    assert torch.equal(read_weights(mine, Reading(0)), layers[0][0].mean(0)[:3])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_what_links_foretell_is_counted_over_the_others(pairs):
    total = 0.0
    for n, (source, target) in enumerate(pairs):
        others = [pair for m, pair in enumerate(pairs) if m != n]
        share = sum(t == target for _, t in pairs) / len(pairs)
        total += np.log((others.count((source, target)) + share) / (sum(s == source for s, _ in others) + 1))
    sources, targets = map(np.array, zip(*pairs, strict=True))
    assert foretold(sources, targets) == pytest.approx(total / len(pairs))


# ── in the right place ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "tokenizer",
    [Characters("abcdef ."), BytePairs([("Ġ", "a"), ("e", "d")]), Symbols(["a", "bee"])],
    ids=lambda t: t.kind,
)
def test_alignments_do_not_depend_on_the_batch(tokenizer):
    translator = build(tokenizer=tokenizer)
    pairs = [("a bad cafe", "bee"), ("", "a"), ("bee", ""), ("dad", "a deaf bee. " * 5), ("é🙂", "ed"), ("a" * 90, "a")]
    found = translator.align(pairs, "0.1")
    assert [translator.align([pair], "0.1")[0] for pair in pairs] == found
    for (source, target), one in zip(pairs, found, strict=True):
        sizes = [len(text) if tokenizer.kind == "characters" else len(text.split()) for text in (source, target)]
        assert {s for s, _ in one.links} == (set(range(sizes[0])) if target else set())
        assert {t for _, t in one.links} == (set(range(sizes[1])) if source else set())


def test_what_is_too_long_for_a_table_of_positions_has_no_links():
    translator = build(positions="learned", max_length=5)
    (one,) = translator.align([("abcabc", "abcabc")], "0.0")
    assert one.truncated
    assert {s for s, _ in one.links} == set(range(5))
    assert {t for _, t in one.links} == set(range(4))
    (one,) = build(positions="learned", max_length=1).align([("abc", "abc")], "0.0")
    assert (one.links, one.truncated) == ((), True)


@pytest.mark.parametrize(
    "tokenizer", [Characters("abcdef .A"), BytePairs([("Ġ", "a"), ("e", "d")])], ids=lambda t: t.kind
)
def test_words_of_a_line_in_parts_are_counted_through(tokenizer):
    translator = build(pieces=14, tokenizer=tokenizer)
    reading = translator.reading("0")
    parts = ["A bad cafe.", "A deaf bee.", "A face."]
    (whole,) = translator.translate([" ".join(parts)], align=reading)
    assert whole.parts == 3
    expected, source, target = set(), 0, 0
    for part, one in zip(parts, translator.translate(parts, align=reading), strict=True):
        expected |= {
            (source + s, target + t)
            for s, t in one.n_best[0].alignment
            if inked(one.text, t, tokenizer) and inked(part, s, tokenizer)
        }
        step = (
            (len(part) + 1, len(one.text) + 1)
            if tokenizer.kind == "characters"
            else (len(part.split(" ")), len([w for w in one.text.split(" ") if w]))
        )
        source, target = source + step[0], target + step[1]
    assert set(whole.n_best[0].alignment) == expected


def inked(text, unit, tokenizer):
    return tokenizer.kind != "characters" or text[unit] != " "


def test_every_alternative_has_its_alignment():
    translator = build()
    (found, blank) = translator.translate(
        ["a bad cafe", " "], translator.search(n_best=4), align=translator.reading("0.1")
    )
    for one in found.n_best:
        assert {s for s, _ in one.alignment} == (set(range(len("a bad cafe"))) if one.text else set())
        assert {t for _, t in one.alignment} == set(range(len(one.text)))
    assert blank.n_best[0].alignment == ()


# ── which attention ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["2", "2.3", "0.0:read", "11:read"])
def test_a_reading_is_what_it_says(text):
    assert str(Reading.parse(text)) == text


@pytest.mark.parametrize("text", ["", "x", "1.", ".1", "-1", "1.2.3", "1:write", "1,2", "٣"])
def test_what_is_no_reading_is_refused(text):
    with pytest.raises(OptionError, match=r"alignment head must be LAYER or LAYER\.HEAD"):
        Reading.parse(text)
    if text:
        with pytest.raises(OptionError, match="alignment head must be"):
            DecodeConfig(alignment=text)


@pytest.mark.parametrize("head", ["4", "0.4", "9.9:read"])
def test_a_head_that_is_not_there_is_refused(head):
    with pytest.raises(OptionError, match="a head that exists, got"):
        build().reading(head)
    with pytest.raises(OptionError, match="a head that exists, got"):
        load_recipe("tiny", {"decode.alignment": "99"})


def test_a_model_that_does_not_say_is_asked_on_its_own_data(tmp_path):
    translator = build()
    with pytest.raises(OptionError, match=r"a recipe without decode\.alignment"):
        reading_of(tmp_path, translator)
    (tmp_path / "data").mkdir()
    for side, text in (("source", "a bad cafe\nbee\n"), ("target", "bee\ndad\n")):
        (tmp_path / "data" / f"dev.{side}.txt").write_text(text)
    assert reading_of(tmp_path, translator) == find_reading(translator, [("a bad cafe", "bee"), ("bee", "dad")])
    assert reading_of(tmp_path, translator, "0.1") == Reading(0, 1)


def test_there_must_be_something_to_find_it_on():
    with pytest.raises(InputError, match="got none"):
        find_reading(build(), [("", "a"), ("a", "")])


def test_a_head_that_aligns_is_found(monkeypatch):
    """Of heads that look at random and one that looks where it should, shifted by a step: that one."""
    translator = build(heads=2, layers=2)
    rng = np.random.default_rng(0)
    pairs = [("".join(rng.permutation(list("abcdef"))),) * 2 for _ in range(20)]

    def watch(model, sources, targets, most):
        for n, (source, target) in enumerate(zip(sources, targets, strict=True)):
            layers = [torch.rand(2, len(target) + 1, len(source) - 1) for _ in range(2)]
            layers[1] *= torch.tensor([2.0, 0.1])[:, None, None]  # their mean is as bad as the worse of the two
            layers[1][1, 1:] += torch.eye(len(target))
            yield n, layers

    monkeypatch.setattr("manyheads.decoding.find_reading.watch", watch)
    assert str(find_reading(translator, pairs)) == "1.1:read"


def test_pairs_of_a_file(tmp_path, de_en):
    path = tmp_path / "pairs.tsv"
    path.write_text("Danke!\tThanks!\n\nGute Nacht!\tGood night!\n")
    found = list(align(de_en, path))
    assert [str(one) for one in found] == ["0-0", "", "0-0 1-1"]
    assert json.dumps(found[2].links) == "[[0, 0], [1, 1]]"


def test_letters_are_linked_to_phones():
    """Units of the two sides may differ: a letter, a phone."""
    vocabulary = Vocabulary(Characters("ABC"), Symbols(["AH", "B"]))
    assert vocabulary.source.units(vocabulary.source.encode(["CAB"])[0]) == [0, 1, 2]
    assert vocabulary.target.units(vocabulary.target.encode(["AH B"])[0]) == [0, 1]


def test_a_target_beyond_what_is_aligned_stops_nothing():
    """Development sets are not cut at data.max_length: one line may be very long."""
    translator = Translator.load("de-en", "cpu")
    pairs = [("Ein Hund schläft.", "A dog sleeps."), ("Ein Hund.", "a dog " * 1_200)]
    assert str(find_reading(translator, pairs))
    with pytest.raises(InputError, match="got none"):
        find_reading(translator, [])
