"""Masked words: whole ones, as many as the recipe says, and a function of seed, epoch and text."""

import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.bert import tokenizer as word_pieces
from interop.gpt2 import tokenizer as byte_pieces
from manyheads.errors import InputError, OptionError
from manyheads.modelfolder import bundled
from manyheads.settings import MaskConfig
from manyheads.text.dropout import one_after_the_other
from manyheads.text.foreign import ForeignPieces
from manyheads.text.masking import Masking, find_mask, table_size
from manyheads.text.tokenizer import PADDING
from manyheads.text.vocabulary import train_tokenizer
from manyheads.text.wordbegins import word_begins

with gzip.open(bundled("tatoeba/dev.tsv.gz"), "rt", encoding="utf-8") as file:
    LINES = [line.rstrip("\n").split("\t")[1] for line in file]
PAIRS = train_tokenizer("bpe", LINES, 600)
FOREIGN = ForeignPieces(json.loads(word_pieces().to_str()))
BYTES = ForeignPieces(json.loads(byte_pieces().to_str()), [0], [0])
TEN = "one two three four five six seven eight nine ten"


def rows(ids):
    return one_after_the_other([np.array(one, np.int64) for one in ids])


def one_by_one(rows):
    return [rows.ids[start : start + length].tolist() for start, length in zip(rows.starts, rows.lengths, strict=True)]


def masked(texts, tokenizer=PAIRS, *, keys=None, epoch=0, seed=1, **config):
    """(ids, what is read, what is asked for) of each text, without the frame."""
    ids = tokenizer.encode(texts)
    masking = Masking(tokenizer, MaskConfig(**config), seed)
    read, asked = masking(rows(ids), np.arange(len(texts)) if keys is None else np.array(keys), epoch)
    for one in one_by_one(read):
        assert (one[:1], one[-1:]) == (masking.begin, masking.end)
    for one in one_by_one(asked):
        assert one[0] == one[-1] == PADDING
    return list(zip(ids, *([one[1:-1] for one in one_by_one(side)] for side in (read, asked)), strict=True))


def words_of(tokenizer, ids):
    """The word of each piece; a space that is a piece of its own belongs to the word behind it. What is unknown is a word, too."""
    if tokenizer is FOREIGN:
        return np.cumsum([not piece.startswith("##") for piece in tokenizer.pieces(ids)]).tolist()
    units = tokenizer.units(ids)
    for n in reversed(range(len(units))):
        units[n] = units[n + 1] if units[n] is None else units[n]
    return units


words = st.text(st.sampled_from("abcdeghns.,é🙂"), min_size=1, max_size=9)
texts = st.lists(st.lists(words, min_size=1, max_size=25).map(" ".join), min_size=1, max_size=6)


@given(texts, st.sampled_from([PAIRS, FOREIGN]), st.floats(0, 1), st.integers(0, 3))
def test_all_pieces_of_a_chosen_word_are_asked_for_and_nothing_else_is_touched(some, tokenizer, share, epoch):
    for ids, read, asked in masked(some, tokenizer, epoch=epoch, words=share):
        units = words_of(tokenizer, ids)
        chosen = {unit for unit, label in zip(units, asked, strict=True) if label != PADDING}
        assert asked == [i if unit in chosen else PADDING for i, unit in zip(ids, units, strict=True)]
        assert [i for i, label in zip(read, asked, strict=True) if not label] == [
            i for i, label in zip(ids, asked, strict=True) if not label
        ]
        wanted = share * len(set(units))
        assert max(1, math.floor(wanted)) <= len(chosen) <= max(1, math.ceil(wanted))


@pytest.mark.parametrize("tokenizer", [FOREIGN, BYTES], ids=["WordPiece", "bytes"])
def test_pieces_that_begin_a_word_are_those_that_the_tokenizer_says(tokenizer):
    begins = word_begins(tokenizer)
    for ids in filter(None, tokenizer.encode(LINES[:300])):
        units = tokenizer.units(ids)
        known = [n for n in range(1, len(ids)) if None not in (units[n], units[n - 1])]
        assert [bool(begins[ids[n]]) for n in known] == [units[n] != units[n - 1] for n in known]
    assert begins.any(), "there is a piece that does"


def within(count, draws, probability):
    """Five deviations of a binomial."""
    return abs(count - draws * probability) <= 5 * math.sqrt(draws * probability * (1 - probability))


def test_rates_are_those_of_the_recipe():
    """Words of every place alike, in the mean exactly as many as asked for; of their pieces most hidden, some replaced, some left."""
    draws = 20_000
    found = masked([TEN] * draws)
    by_place = np.zeros(10)
    for ids, _, asked in found:
        units = words_of(PAIRS, ids)
        by_place[sorted({unit for unit, label in zip(units, asked, strict=True) if label})] += 1
    assert within(by_place.sum(), 10 * draws, 0.15)
    assert all(within(count, draws, 0.15) for count in by_place)
    pieces = [(i, seen) for ids, read, asked in found for i, seen, label in zip(ids, read, asked, strict=True) if label]
    hidden = sum(seen == PAIRS.size for _, seen in pieces)
    stay = sum(seen == i for i, seen in pieces)
    others = [seen for i, seen in pieces if seen not in (i, PAIRS.size)]
    size = PAIRS.size - 3
    assert within(hidden, len(pieces), 0.8)
    assert within(stay, len(pieces), 0.1 + 0.1 / size)
    counts = np.bincount(others, minlength=PAIRS.size)
    assert (counts[:3] == 0).all()
    assert abs(counts[3:].var() / counts[3:].mean() - 1) < 5 * math.sqrt(2 / size)  # as of even draws


def test_a_text_of_one_word_has_it_asked_for_and_an_empty_one_nothing():
    (one, nothing, two) = masked(["Hello", "", "a dog"], FOREIGN, words=0.0)
    assert one[2] == one[0]
    assert nothing == ([], [], [])
    assert np.count_nonzero(two[2]) > 0


def test_a_draw_follows_from_seed_epoch_and_text_whatever_else_is_in_the_batch():
    some = LINES[:200]
    once = masked(some)
    assert masked(some) == once
    order = np.random.default_rng(0).permutation(200)
    assert masked([some[n] for n in order], keys=order) == [once[n] for n in order]
    for other in (masked(some, epoch=1), masked(some, seed=2), masked(some, keys=np.arange(200) + 1_000)):
        same = sum(mine == his for (*_, mine), (*_, his) in zip(once, other, strict=True))
        assert same < 80  # texts of a few words have not many


def test_the_mask_is_that_of_imported_pieces_or_one_more_than_there_are():
    assert (find_mask(PAIRS), table_size(PAIRS)) == (PAIRS.size, PAIRS.size + 1)
    assert (find_mask(FOREIGN), table_size(FOREIGN)) == (4, FOREIGN.size)
    drawn = {i for n in range(300) for _, read, _ in masked(["a b c dogs"], FOREIGN, seed=n, hidden=0, replaced=1) for i in read}  # fmt: skip
    assert drawn == set(range(5, FOREIGN.size))  # every piece but the special ones


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda stored: stored["added_tokens"].pop(4), r"must have a special piece \[MASK\]"),
        (lambda stored: stored["added_tokens"].pop(0), r"piece 0 .* must be special, got '\[PAD\]'"),
    ],
)
def test_a_tokenizer_that_cannot_be_masked_is_refused(change, complaint):
    stored = json.loads(word_pieces().to_str())
    change(stored)
    with pytest.raises(InputError, match=complaint):
        Masking(ForeignPieces(stored), MaskConfig())


def test_more_than_all_is_refused():
    with pytest.raises(OptionError, match=r"got hidden = 0\.8 and replaced = 0\.3"):
        MaskConfig(replaced=0.3)


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def cut(tokenizer, text):
    """The words of a text."""
    (ids,) = tokenizer.encode([text])
    begins = word_begins(tokenizer)
    starts = [n for n, i in enumerate(ids) if begins[i] or n == 0]
    ends = [*starts[1:], len(ids)]
    return [tokenizer.decode(ids[start:end]) for start, end in zip(starts, ends, strict=True)]


def test_words_of_each_kind_of_tokenizer():
    assert cut(PAIRS, "I don't know café 🙂.") == ["I", "don't", "know", "café", "🙂."]
    assert cut(FOREIGN, "dogs abba.") == ["dogs", "abba", "."]
    characters = train_tokenizer("characters", ["abc"], 262)
    assert cut(characters, "ab é🙂") == ["a", "b", " ", "é", "🙂"]  # some of them spelt in bytes
    symbols = train_tokenizer("symbols", ["AH0 B K"], 262)
    assert cut(symbols, "K AH0 B") == ["K", "AH0", "B"]


def test_a_line_without_spaces_is_many_words_where_a_script_has_none():
    """Also where its letters are spelt in bytes. (The space before a text is a piece of its own there.)"""
    assert cut(PAIRS, "我爱中文") == ["", "我", "爱", "中", "文"]
    assert cut(PAIRS, "あ x") == ["", "あ", "x"]
    learnt = train_tokenizer("bpe", ["我爱你", "你爱中文", "他们", "中文"] * 4, 285)
    assert cut(learnt, "他们爱中文") == ["他们", "爱中文"]
