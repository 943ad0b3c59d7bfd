"""Each examiner against what it should find, counted the plain way."""

import csv
import math
import statistics
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.checking.characters import FIX_TEXT, has_invisible, has_mojibake, is_quoted, visible
from manyheads.checking.languages import ENOUGH, LONGEST, MOST, SHARE, Languages
from manyheads.checking.lengths import Pieces, Ratio, middle
from manyheads.checking.repeats import Overlap, Repeats
from manyheads.checking.sample import Sample
from manyheads.checking.scripts import Scripts
from manyheads.checking.texts import Texts, has_other_numbers, is_markup, is_repetitive
from manyheads.text.listed import Characters
from manyheads.text.vocabulary import Vocabulary

words = st.text("abc ", min_size=1, max_size=3)
corpora = st.lists(st.lists(st.tuples(words, words), min_size=1, max_size=6), min_size=1, max_size=4)


def examine(examiner, blocks):
    for block in blocks:
        examiner.learn(block)
    examiner.settle()
    verdicts = [examiner.judge(block) for block in blocks]
    return {name: np.concatenate([verdict[name] for verdict in verdicts]).tolist() for name in examiner.finds}


@given(corpora)
def test_repeats_are_those_of_a_set(blocks):
    pairs = [pair for block in blocks for pair in block]
    before = [pairs[:n] for n in range(len(pairs))]
    duplicate = [pair in seen for pair, seen in zip(pairs, before, strict=True)]
    again = [
        [pair not in seen and pair[side] in [other[side] for other in seen] for pair, seen in zip(pairs, before, strict=True)]
        for side in (0, 1)
    ]  # fmt: skip
    assert examine(Repeats(), blocks) == {"duplicate": duplicate, "targets": again[0], "sources": again[1]}


@given(corpora, st.lists(st.tuples(words, words), max_size=6))
def test_overlap_is_that_of_a_set(blocks, against):
    pairs = [pair for block in blocks for pair in block]
    found = examine(Overlap(against), blocks)
    assert found["overlap"] == [pair in against for pair in pairs]
    assert found["seen"] == [source in [other for other, _ in against] for source, _ in pairs]


def evidence(text, side, pair, counts, totals):
    """The formula of the module, one n-gram after the other."""

    def ngrams(text):
        text = f" {text} ".lower()
        return [text[i : i + n] for n in range(1, LONGEST + 1) for i in range(len(text) - n + 1)]

    own = [Counter(ngrams(one)) for one in pair]
    total = 0.0
    for ngram in ngrams(text):
        logs = [math.log((counts[s][ngram] - own[s][ngram] + SHARE) / totals[s]) for s in (0, 1)]
        total += max(-MOST, min(MOST, logs[side] - logs[1 - side]))
    return total, total / len(ngrams(text))


@settings(max_examples=30)
@given(corpora)
def test_the_evidence_is_the_formula(blocks):
    """Exactly, as long as no two n-grams share a bucket: of so few, none do."""
    pairs = [pair for block in blocks for pair in block]
    languages = Languages()
    for block in blocks:
        languages.learn(block)
    languages.settle()
    counts = [Counter(), Counter()]
    for pair in pairs:
        for side in (0, 1):
            text = f" {pair[side]} "
            counts[side].update(text[i : i + n] for n in range(1, LONGEST + 1) for i in range(len(text) - n + 1))
    used = len(counts[0] | counts[1])
    totals = [side.total() + SHARE * used for side in counts]
    weighed = languages.weigh(pairs)
    for side in (0, 1):
        for n, pair in enumerate(pairs):
            expected = evidence(pair[side], side, pair, counts, totals)
            assert (weighed[side][0][n], weighed[side][1][n]) == pytest.approx(expected, abs=1e-9)


def test_sides_that_look_alike_are_not_judged():
    pairs = [(f"der Hund {n} schläft", f"der Hund {n} schlief") for n in range(200)]
    pairs += [(target, source) for source, target in pairs]
    languages = Languages()
    found = examine(languages, [pairs])
    assert not languages.told_apart
    assert not any(found["swapped"] + found["language"])


@given(st.lists(st.integers(0, 50), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_middle_is_that_of_the_sorted_list(numbers, share):
    assert middle(Counter(numbers), share) == sorted(numbers)[math.ceil(share * len(numbers)) - 1]


def test_the_usual_ratio_is_the_median():
    pairs = [("x" * (10 + n), "y" * (25 + 3 * n)) for n in range(101)]
    ratio = Ratio(3)
    assert not any(examine(ratio, [pairs[:50], pairs[50:]])["ratio"])
    assert ratio.usual == pytest.approx(statistics.median(len(t) / len(s) for s, t in pairs), rel=0.01)
    found = ratio.judge(
        [("x" * 20, "y" * 200), ("x" * 20, "y" * 50), ("x" * 60, "y" * 30), ("x", "y" * 9), ("x" * 60, "y")]
    )
    assert found["ratio"].tolist() == [True, False, True, False, True]


def test_pieces_are_those_of_the_vocabulary_that_is_given():
    pieces = Pieces(Vocabulary(Characters("abc")), limit=3)
    assert examine(pieces, [[("a", "b"), ("abc", "ab")], [("abca", "a"), ("a", "bbbb")]])["length"] == [
        False,
        False,
        True,
        True,
    ]
    assert pieces.lengths == (Counter({1: 2, 3: 1, 4: 1}), Counter({1: 2, 2: 1, 4: 1}))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=10), st.integers(1, 30))
def test_a_sample_is_every_so_manieth(sizes, most):
    everything = [(str(n), "") for n in range(sum(sizes))]
    sample, start = Sample(most, 1_000_000), 0
    for size in sizes:
        sample.add(everything[start : start + size])
        start += size
    assert sample.pairs == everything[:: sample.stride]
    assert len(everything) / 2 / sample.stride <= most


@given(st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=8), min_size=1, max_size=8), st.integers(1, 200))
def test_a_sample_is_bounded_in_characters(blocks, largest):
    sample = Sample(1_000, largest)
    for block in blocks:
        sample.add([("x" * (size // 2), "y" * (size - size // 2)) for size in block])
        assert sum(len(source) + len(target) for source, target in sample.pairs) <= largest or len(sample.pairs) == 1
    sizes = [size for block in blocks for size in block]
    assert [len(source + target) for source, target in sample.pairs] == sizes[:: sample.stride]


def test_examiners_hold_few_of_the_characters_they_learn():
    text = "Ein Satz, noch ein Satz. " * 40_000
    examiners = [Languages(), Pieces(None, 255)]
    for examiner in examiners:
        for n in range(30):
            examiner.learn([(f"{n} {text}", text)] * 4)
        assert sum(len(side) for pair in examiner.sample.pairs for side in pair) <= 1 << 24
    assert max(len(side) for pair in examiners[0].sample.pairs for side in pair) == ENOUGH
    assert len(examiners[0].sample.pairs) >= 60


def test_scripts():
    usual = [("Ein Satz.", "Это предложение."), ("Noch einer, über µm und β.", "Ещё одно, 3D.")] * 3
    odd = [
        ("Ein Satz.", "A sentence."), ("Предложение.", "Это предложение."), ("Ein Sаtz.", "Это предложение."), ("東京タワー", "Это."),
    ]  # fmt: skip
    assert examine(Scripts(), [usual * 5 + odd])["script"] == [False] * 30 + [True] * 4
    japanese = [("東京タワーへ行く。", "I go."), ("한국어와 漢字", "Korean.")]
    assert not any(examine(Scripts(), [japanese])["script"])


@pytest.mark.parametrize(
    ("source", "target", "differ"),
    [
        ("12 Hunde", "12 dogs", False), ("12 Hunde", "13 dogs", True), ("zwölf Hunde", "12 dogs", False),
        ("1.000.000 €", "€ 1,000,000", False), ("1 000", "1,000", False), ("am 5.10.2003", "on October 5, 2003", False),
        ("07", "7", False), ("2003 und 7", "7 and 2004", True), ("nichts", "nothing", False), ("٣ ", "3", True),
    ],
)  # fmt: skip
def test_numbers(source, target, differ):
    assert has_other_numbers(source, target) is differ


@pytest.mark.parametrize(
    ("text", "repetitive"),
    [("no no no no", True), ("no no no", False), ("No, no, no, no!", False), ("a b a b a b a b", True), ("hahahahahahahahahaha", True),
     ("1000000000000000", False), ("............", False), ("Brrrr!", False), ("the cat and the dog and the cat", False)],
)  # fmt: skip
def test_repetition(text, repetitive):
    assert is_repetitive(text) is repetitive


@pytest.mark.parametrize(
    ("text", "markup"),
    [("https://a.example/b?c=1", True), ("me@a.example", True), ("<br/> &nbsp;", True), ("…", True), ("{name}", True),
     ("See https://a.example.", False), ("1984", False), ("<b>No</b>", False), ("東京", False)],
)  # fmt: skip
def test_markup(text, markup):
    assert is_markup(text) is markup


@pytest.mark.parametrize("letter", ["x", "<", "&", "{", "a.", "a@", "1,", "\u200d", "Ã", "ab ", "\u0430"])
def test_a_long_text_takes_no_longer_than_its_length(letter):
    """Hours, if a pattern begins again at every letter."""
    text = letter * ((1 << 18) // len(letter))
    assert Texts().judge([(text, text)])["same"].tolist() == [True]
    assert len(examine(Scripts(), [[(text, text)]])["script"]) == 1
    assert len(examine(Languages(), [[(text, text)]])["swapped"]) == 1


@pytest.mark.parametrize(
    "text",
    ["schön", "naïve café", "„Ä“ und „Ö“", "l’été »", "ÉTÉ\u00a0»", "São Paulo", "MAÇÃ", "Привет", "日本語", "Å»"],
)
def test_text_that_is_as_it_should_be_is_no_mojibake(text):
    assert not has_mojibake(text)


@pytest.mark.parametrize("text", ["ä", "É", "’", "“", "Привет", "日本語", "😀", "Ω≈ç", "łódź"])
def test_what_was_decoded_wrongly_is_mojibake(text):
    assert has_mojibake(f"a {text.encode().decode('latin-1')} b") or has_mojibake(
        f"a {text.encode().decode('cp1252', errors='replace')} b"
    )


@pytest.mark.parametrize("odd", ["\u200b", "\u00ad", "\ufeff", "\u202e", "\ue000", "\ufffd", "\ufdd0", "\U000f1234"])
def test_invisible_characters(odd):
    assert has_invisible(f"a{odd}b")
    assert not has_invisible("می\u200cخواهم 👩\u200d🚀 क्\u200dष")  # joiners where they belong
    assert has_invisible("a\u200db")
    shown = odd if odd == "\ufffd" else odd.encode("unicode_escape").decode()
    assert visible(f"a{odd}b") == f"a{shown}b"


@given(st.text(max_size=30))
def test_what_is_mended_stays_mended(text):
    for fix in FIX_TEXT.values():
        assert fix(fix(text)) == fix(text)
    assert visible(text).isprintable()


@given(st.text('ab" ', max_size=8))
def test_what_a_spreadsheet_has_quoted_is_read_as_csv_reads_it(text):
    """Every cell with a mark in it is told, and mended to what it was."""
    cell = '"' + text.replace('"', '""') + '"'
    assert is_quoted(cell) == ('"' in text)
    assert FIX_TEXT["quoted"](cell) == (next(csv.reader([cell]))[0] if '"' in text else cell)


@pytest.mark.parametrize("text", ['"Yes."', '"', '""', '"a" and "b"', '"a" ""b""', "plain", ""])
def test_marks_that_may_be_a_sentence_s_own_stay(text):
    assert not is_quoted(text)
    assert FIX_TEXT["quoted"](text) == text
