"""BPE-dropout (Provilkov et al. 2020): a word is cut into other pieces in every sentence and every epoch.

Byte-pair encoding joins, in every round, the two neighbours of a word whose merge was learnt first. Here each merge is
left out of a round with probability p, and a word that has none left in a round is done. Whether it is left out follows
from (seed, side, epoch, sentence, round, place) alone, so batches stay a function of the step. All words of a batch go through
a round together.

N bytes, then pieces, of all sentences of a batch in a row
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from manyheads.text.shards import Rows, Sequences
from manyheads.text.tokenizer import FIRST, BytePairs

__all__ = ["MergeDropout", "Recut"]

Ids = Int[np.ndarray, " N"]
SPACE = ord(" ")
TRIED = 2_000
"""Sentences that tell how much longer sentences become."""


class MergeDropout:
    """Cuts sentences anew: ids as `BytePairs.encode` gives them in, ids of the same text out."""

    def __init__(self, tokenizer: BytePairs, probability: float, seed: int, side: int = 0) -> None:
        self.probability, self.seed, self.side = probability, seed, side
        self.spellings = [np.frombuffer(spelling, np.uint8) for spelling in tokenizer.spellings]
        ids = {spelling: i for i, spelling in enumerate(tokenizer.spellings) if i >= FIRST}
        self.byte_ids = np.array([ids.get(bytes([b]), 0) for b in range(256)], np.int64)
        merges = [tuple(tokenizer.spelling(half) for half in merge) for merge in tokenizer.merges]
        pairs = np.array([(ids[left] * tokenizer.size + ids[right]) for left, right in merges], np.int64)
        self.order = np.argsort(pairs, kind="stable")  # of the same merge twice, the first counts
        self.pairs = pairs[self.order]
        self.joined = np.array([ids[left + right] for left, right in merges], np.int64)
        self.size = tokenizer.size

    def __call__(self, sentences: Sequence[Iterable[int]], keys: Sequence[int], epoch: int) -> list[Ids]:
        """`keys` tell sentences apart: the same key and epoch give the same cuts, whatever else is in the batch."""
        spelt = [np.concatenate([self.spellings[i] for i in ids] or [self.spellings[0]]) for ids in sentences]
        lengths = np.array(list(map(len, spelt)), np.int64)
        flat = np.concatenate(spelt) if spelt else np.empty(0, np.uint8)
        sentence = np.repeat(np.arange(len(spelt)), lengths)
        ends = np.cumsum(lengths)
        place = np.arange(len(flat)) - np.repeat(ends - lengths, lengths)
        draws = mixed(np.array(keys, np.uint64)[sentence] ^ mixed(place.astype(np.uint64)))
        draws ^= mixed(np.uint64(self.seed) + (np.uint64(2 * epoch + self.side) << np.uint64(32)))
        starts = starts_of_words(flat, place)
        pieces, kept = self.merge(self.byte_ids[flat], np.cumsum(starts), draws)
        return np.split(pieces, np.searchsorted(sentence[kept], np.arange(1, len(spelt))))

    def merge(self, ids: Ids, word: Ids, draws: Ids) -> tuple[Ids, Ids]:
        """(ids of the pieces, where each begins)"""
        begin = np.arange(len(ids))
        busy = np.ones(len(ids), bool)  # pieces of words that are not done
        step = 0
        while True:
            left = np.flatnonzero(busy[:-1] & (word[:-1] == word[1:])) if len(ids) else begin
            rank = self.rank(ids[left], ids[left + 1] if len(left) else left)
            stays = (rank >= 0) & self.drawn(draws[begin[left]], step)
            left, rank = left[stays], rank[stays]
            if not len(left):
                return ids, begin
            chosen, words = best_of_each_word(word[left], rank)
            busy = np.isin(word, words)
            ids[left[chosen]] = self.joined[rank[chosen]]
            keep = np.ones(len(ids), bool)
            keep[left[chosen] + 1] = False
            ids, word, begin, busy = ids[keep], word[keep], begin[keep], busy[keep]
            step += 1

    def rank(self, left: Ids, right: Ids) -> Ids:
        """When the merge of each two was learnt; −1 if none was."""
        pairs = left * self.size + right
        place = np.minimum(np.searchsorted(self.pairs, pairs), max(0, len(self.pairs) - 1))
        if not len(self.pairs):
            return np.full(len(pairs), -1)
        return np.where(self.pairs[place] == pairs, self.order[place], -1)

    def drawn(self, draws: Ids, step: int) -> Bool[np.ndarray, " N"]:
        """Which merges take part in this round."""
        return mixed(draws + np.uint64(step)) >= np.uint64(int(self.probability * (2**64 - 1)))


class Recut:
    """Sequences of a corpus that are cut anew in every epoch; what would be longer than `most` stays as it is."""

    def __init__(self, stored: Sequences, dropout: MergeDropout, most: int) -> None:
        self.stored, self.dropout, self.most = stored, dropout, most
        tried = np.linspace(0, len(stored) - 1, min(TRIED, len(stored))).astype(np.int64)
        longer = self.rows(tried, 0).lengths.sum() / max(1, stored.lengths[tried].sum())
        # A batch is planned for sentences of this length. Some will be longer, some shorter.
        self.lengths = np.ceil(stored.lengths * longer).astype(np.int32)

    def rows(self, rows: Ids, epoch: int, room: int | None = None) -> Rows:
        """If all of them, an end behind each, must fit into a room, the last ones stay as they are stored, as many as must."""
        stored = [self.stored[row] for row in rows]
        drawn = self.dropout([ids.tolist() for ids in stored], rows.tolist(), epoch)
        found = [new if len(new) <= self.most else old for new, old in zip(drawn, stored, strict=True)]
        if room is not None:
            found = within(found, stored, room - len(rows))
        lengths = np.array(list(map(len, found)), np.int64)
        return Rows(np.concatenate(found), np.cumsum(lengths) - lengths, lengths)


def within(drawn: list[Ids], stored: list[Ids], room: int) -> list[Ids]:
    """What was drawn, as far as the rest, as it is stored, still fits behind it."""
    longer = np.cumsum([len(new) - len(old) for new, old in zip(drawn, stored, strict=True)])
    fits = np.flatnonzero(longer + sum(map(len, stored)) <= room)
    count = int(fits[-1]) + 1 if len(fits) else 0
    return drawn[:count] + stored[count:]


def starts_of_words(flat: Ids, place: Ids) -> Bool[np.ndarray, " N"]:
    """A word begins with a sentence, and with a space."""
    return (place == 0) | (flat == SPACE)


def best_of_each_word(word: Ids, rank: Ids) -> tuple[Ids, Ids]:
    """(the place of the lowest rank of every word, the leftmost of equals; the words)"""
    order = np.lexsort((rank, word))
    first = np.ones(len(order), bool)
    first[1:] = word[order][1:] != word[order][:-1]
    return order[first], word[order[first]]


def mixed(numbers: Any) -> Any:
    """Numbers that look random (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = np.asarray(numbers, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
