"""BPE-dropout: the same text in other pieces, as the paper's loop cuts it, and a function of seed, epoch and sentence."""

import gzip
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.modelfolder import bundled
from manyheads.text.dropout import NONE, MergeDropout, Ranks, Recut, mixed
from manyheads.text.shards import Sequences, sequence_writer
from manyheads.text.tokenizer import FIRST
from manyheads.text.vocabulary import Vocabulary, train_tokenizer

with gzip.open(bundled("tatoeba/dev.tsv.gz"), "rt", encoding="utf-8") as file:
    LINES = [line.split("\t")[0] for line in file]
PAIRS = train_tokenizer("bpe", LINES, 1_000)
IDS = PAIRS.encode(LINES)


def by_hand(text, key, epoch, p, seed, side):
    """The paper's loop, word by word, with the same draws."""
    ids = {spelling: i for i, spelling in enumerate(PAIRS.spellings) if i >= FIRST}
    ranks = {tuple(map(PAIRS.spelling, merge)): n for n, merge in reversed(list(enumerate(PAIRS.merges)))}
    spelt, found = (" " + text).encode(), []
    begins = [n for n, byte in enumerate(spelt) if n == 0 or byte == ord(" ")]
    for begin, end in zip(begins, [*begins[1:], len(spelt)], strict=True):
        pieces = [(n, spelt[n : n + 1]) for n in range(begin, end)]
        for step in range(100):
            candidates = []
            for n, ((place, left), (_, right)) in enumerate(pairwise(pieces)):
                with np.errstate(over="ignore"):
                    draw = mixed(np.uint64(key) ^ mixed(np.uint64(place)))
                    draw ^= mixed(np.uint64(seed) + (np.uint64(2 * epoch + side) << np.uint64(32)))
                    stays = mixed(draw + np.uint64(step)) >= np.uint64(int(p * (2**64 - 1)))
                if (left, right) in ranks and stays:
                    candidates.append((ranks[left, right], n))
            if not candidates:
                break
            _, n = min(candidates)
            pieces[n : n + 2] = [(pieces[n][0], pieces[n][1] + pieces[n + 1][1])]
        found += [ids[piece] for _, piece in pieces]
    return found


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
def test_against_the_loop_of_the_paper(p):
    some = range(0, 300, 7)
    for side in (0, 1):
        drawn = MergeDropout(PAIRS, p, seed=5, side=side)([IDS[n] for n in some], list(some), 3)
        assert [ids.tolist() for ids in drawn] == [by_hand(LINES[n], n, 3, p, 5, side) for n in some]


def test_cuts_are_those_of_every_earlier_run():
    """A run that goes on with a later version must meet the same pieces: these were drawn before the first rewrite."""
    tokenizer = Vocabulary.loads(bundled("de-en/tokenizer.json").read_text(encoding="utf-8"), "tokenizer.json").source
    drawn = np.concatenate(MergeDropout(tokenizer, 0.1, 7, 1)(tokenizer.encode(LINES), range(len(LINES)), 5))
    assert sha256(drawn.astype("<i4").tobytes()).hexdigest()[:16] == "661bbcbbde9e93bd"


@given(st.data())
def test_ranks_are_found_and_only_those(data):
    """Also where many pairs want the same slots."""
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=200))
    ranks = Ranks(pairs, 41)
    left, right = np.divmod(np.arange(41 * 41), 41)
    expected = [
        pairs.index(pair) if pair in pairs else NONE for pair in zip(left.tolist(), right.tolist(), strict=True)
    ]
    assert ranks.of(left, right).tolist() == expected


def test_without_dropout_all_is_as_it_was():
    assert [ids.tolist() for ids in MergeDropout(PAIRS, 0.0, 1)(IDS, range(len(IDS)), 0)] == IDS


@given(
    st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), min_size=1, max_size=5),
    st.floats(0, 0.9),
)
def test_the_text_stays_the_same(texts, p):
    drawn = MergeDropout(PAIRS, p, 1)(PAIRS.encode(texts), range(len(texts)), 0)
    assert [PAIRS.decode(ids) for ids in drawn] == texts


def test_a_sentence_is_cut_alike_in_every_batch_and_otherwise_in_every_epoch():
    drop = MergeDropout(PAIRS, 0.3, 1)
    together = drop(IDS[:50], range(50), 4)
    assert all((drop([IDS[n]], [n], 4)[0] == together[n]).all() for n in range(50))
    assert all((drop(IDS[:50], range(50), 4)[n] == together[n]).all() for n in range(50))
    for other in (
        drop(IDS[:50], range(50), 5),
        MergeDropout(PAIRS, 0.3, 2)(IDS[:50], range(50), 4),
        MergeDropout(PAIRS, 0.3, 1, 1)(IDS[:50], range(50), 4),
    ):
        assert sum(len(a) != len(b) or (a != b).any() for a, b in zip(other, together, strict=True)) > 40


def test_a_merge_is_left_out_as_often_as_asked():
    letters = train_tokenizer("bpe", ["ab"] * 9, 400)
    drawn = MergeDropout(letters, 0.25, 1)([letters.encode(["ab"])[0]] * 40_000, range(40_000), 0)
    whole = sum(len(ids) == 1 for ids in drawn) / len(drawn)
    assert letters.pieces(letters.encode(["ab"])[0]) == [" ab"]
    assert abs(whole - 0.75**2) < 0.01  # two merges, one after the other


def test_what_becomes_too_long_stays_as_it_was(tmp_path):
    with sequence_writer(tmp_path / "train.source", PAIRS.size) as write:
        write(PAIRS.encode_packed(LINES[:200]))
    stored = Sequences(tmp_path / "train.source", PAIRS.size)
    rows = np.arange(200)
    most = int(stored.lengths.max())
    recut = Recut(stored, MergeDropout(PAIRS, 0.5, 1), most)
    found = recut.rows(rows, 7)
    assert found.lengths.max() <= most
    assert (found.lengths >= stored.lengths).all()
    assert [PAIRS.decode(row[row > 0]) for row in found.padded()] == LINES[:200]
    assert 1.2 < recut.lengths.sum() / stored.lengths.sum() < 3
