"""BPE-dropout (Provilkov et al. 2020): a word is cut into other pieces in every sentence and every epoch.

In every round, byte-pair encoding joins the two neighbours of a word whose merge was learnt first. Here each merge is
left out of a round with probability p, and a word that has no merges left in a round is done. Whether a merge is left
out follows from (seed, side, epoch, sentence, round, place) alone, so batches stay a function of the step. All words of
a batch go through a round together.

N bytes, then pieces, of all sentences of a batch in a row
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from manyheads.text.bytepairs import BytePairs
from manyheads.text.shards import Later, Rows, Sequences
from manyheads.text.tokenizer import FIRST

__all__ = ["MergeDropout", "Recut"]

Ids = Int[np.ndarray, " N"]
SPACE = ord(" ")
TRIED = 2_000
"""Sentences from which it is estimated how much longer sentences become."""

RANK, PLACE = 20, 40
"""Bits of a rank and of a place where they are packed into one number."""

NONE = 1 << RANK
"""Higher than any rank: there is no such merge."""

SPREAD = 0x9E3779B97F4A7C15


class MergeDropout:
    """Cuts sentences anew: takes ids as `BytePairs.encode` gives them, and returns ids of the same text."""

    def __init__(self, tokenizer: BytePairs, probability: float, seed: int, side: int = 0) -> None:
        self.tokenizer, self.probability, self.seed, self.side = tokenizer, probability, seed, side
        self.spellings = one_after_the_other([np.frombuffer(spelling, np.uint8) for spelling in tokenizer.spellings])
        ids = {spelling: i for i, spelling in enumerate(tokenizer.spellings) if i >= FIRST}
        self.byte_ids = np.array([ids.get(bytes([b]), 0) for b in range(256)], np.int64)
        merges = [tuple(tokenizer.spelling(half) for half in merge) for merge in tokenizer.merges]
        self.joined = np.array([ids[left + right] for left, right in merges], np.int64)
        self.ranks = Ranks([(ids[left], ids[right]) for left, right in merges], tokenizer.size)

    def __call__(self, sentences: Sequence[Sequence[int]], keys: Sequence[int], epoch: int) -> list[Ids]:
        """`keys` tell sentences apart: the same key and epoch give the same cuts, whatever else is in the batch."""
        rows = one_after_the_other([np.asarray(ids, np.int64) for ids in sentences])
        drawn = self.cut(rows, np.asarray(keys), epoch)
        return np.split(drawn.ids, drawn.starts[1:])

    def cut(self, sentences: Rows, keys: Ids, epoch: int) -> Rows:
        spelt = self.spell(sentences)
        sentence = np.repeat(np.arange(len(keys)), spelt.lengths)
        place = np.arange(len(spelt.ids)) - np.repeat(spelt.starts, spelt.lengths)
        draws = mixed(keys.astype(np.uint64)[sentence] ^ mixed(place))
        draws ^= mixed(np.uint64(self.seed) + (np.uint64(2 * epoch + self.side) << np.uint64(32)))
        pieces = self.merge(spelt.ids, starts_of_words(spelt.ids, place), draws)
        begins = np.flatnonzero(pieces >= 0)
        ends = np.searchsorted(begins, spelt.starts + spelt.lengths)
        lengths = np.diff(ends, prepend=0)
        return Rows(pieces[begins], ends - lengths, lengths)

    def spell(self, sentences: Rows) -> Rows:
        """The bytes of every sentence."""
        pieces = gathered(sentences)
        bytes_of, starts, lengths = self.spellings
        letters = Rows(bytes_of, starts[pieces.ids], lengths[pieces.ids])
        ends = np.concatenate([[0], np.cumsum(letters.lengths)])
        starts = ends[pieces.starts]
        return Rows(gathered(letters).ids, starts, ends[pieces.starts + pieces.lengths] - starts)

    def merge(self, spelt: Ids, starts: Bool[np.ndarray, " N"], draws: Ids) -> Ids:
        """For each byte, the id of the piece that begins there, or −1.

        A piece is known by the place of its first byte. `left` holds the pieces of words that are not done, except the
        last piece of each word: every one has a neighbour to be merged with. Everything else is looked up by place, so
        a round costs no more than the work that is left.
        """
        count = len(spelt)
        ids, word = self.byte_ids[spelt], np.cumsum(starts)
        follows = np.append(np.arange(1, count + 1), count)  # the next piece; after a word's last piece, `count`
        follows[:-1][np.append(starts[1:], True)[:count]] = count
        before = np.append(np.where(starts, count, np.arange(-1, count - 1)), count)
        left = np.flatnonzero(follows[:-1] < count)
        rank = np.full(count + 1, NONE)
        rank[left] = self.ranks.of(ids[left], ids[left + 1])
        busy = np.zeros(int(word[-1]) + 1 if count else 1, bool)
        step = 0
        while len(best := self.best_of_each_word(left, rank, word, draws, step)):
            gone = follows[best]
            behind, ahead = follows[gone], before[best]
            ids[best], ids[gone] = self.joined[rank[best]], -1
            follows[best], follows[gone], before[behind] = behind, count, best
            self.rank_again(rank, ids, best, behind)
            self.rank_again(rank, ids, ahead, best)
            busy[:] = False
            busy[word[best]] = True
            left = left[busy[word[left]] & (follows[left] < count)]
            step += 1
        return ids

    def best_of_each_word(self, left: Ids, rank: Ids, word: Ids, draws: Ids, step: int) -> Ids:
        """In each word, the piece whose merge was learnt first among those in this round; the leftmost of equals."""
        ranks = rank[left]
        known = ranks < NONE
        left, ranks = left[known], ranks[known]
        stays = mixed(draws[left] + np.uint64(step)) >= np.uint64(int(self.probability * (2**64 - 1)))
        left, ranks = left[stays], ranks[stays]
        if not len(left):
            return left
        words = word[left]
        first = np.flatnonzero(np.append(True, words[1:] != words[:-1]))
        return np.minimum.reduceat(ranks << PLACE | left, first) & ((1 << PLACE) - 1)

    def rank_again(self, rank: Ids, ids: Ids, left: Ids, right: Ids) -> None:
        """Update ranks where one of two neighbours is new. The left or the right one may be missing."""
        end = len(ids)
        both = (left < end) & (right < end)
        rank[left] = NONE
        left, right = left[both], right[both]
        rank[left] = self.ranks.of(ids[left], ids[right])


class Ranks:
    """When the merge of two pieces was learnt, for many pairs at once.

    A hash table, at most an eighth full, whose entries hold a pair and its rank in one number. (A search in sorted
    pairs took most of the time.)
    """

    def __init__(self, pairs: Sequence[tuple[int, int]], size: int) -> None:
        self.size = size
        numbers, first = np.unique([left * size + right for left, right in pairs], return_index=True)
        bits = max(4, (8 * len(pairs)).bit_length())
        self.shift, self.mask = np.uint64(64 - bits), (1 << bits) - 1
        self.entries = np.full(1 << bits, -1, np.int64)
        waiting, slot = np.asarray(numbers, np.int64) << RANK | first, self.slot(numbers)
        while len(waiting):
            free = self.entries[slot] < 0
            self.entries[slot[free]] = waiting[free]  # if several want a slot, one gets it
            late = self.entries[slot] != waiting
            waiting, slot = waiting[late], (slot[late] + 1) & self.mask

    def slot(self, pairs: Ids) -> Ids:
        with np.errstate(over="ignore"):
            return (np.asarray(pairs, np.int64).view(np.uint64) * np.uint64(SPREAD) >> self.shift).view(np.int64)

    def of(self, left: Ids, right: Ids) -> Ids:
        """The rank of each merge; NONE if there is no such merge."""
        pairs = left * self.size + right
        slot = self.slot(pairs)
        found = self.entries[slot]
        wrong = np.flatnonzero((found >> RANK != pairs) & (found >= 0))
        while len(wrong):  # another pair has the slot: ours may be in the next
            slot[wrong] = (slot[wrong] + 1) & self.mask
            found[wrong] = self.entries[slot[wrong]]
            wrong = wrong[(found[wrong] >> RANK != pairs[wrong]) & (found[wrong] >= 0)]
        return np.where(found >= 0, found & ((1 << RANK) - 1), NONE)


class Recut:
    """Sequences of a corpus, cut anew in every epoch; one that would be longer than `most` stays as stored.

    cut   (rows, epoch) → a function that returns the rows in new pieces; `Cutters` (cutters.py) may be working on them
          until it is called
    """

    def __init__(self, stored: Sequences, dropout: MergeDropout, most: int) -> None:
        self.stored, self.dropout, self.most = stored, dropout, most
        self.cut: Callable[[Ids, int], Later] = self.cut_here
        tried = np.linspace(0, len(stored) - 1, min(TRIED, len(stored))).astype(np.int64)
        longer = max(1.0, self.rows(tried, 0).lengths.sum() / max(1, stored.lengths[tried].sum()))
        # A batch is planned for sentences of this length. Some will be longer, some shorter.
        self.lengths = np.ceil(stored.lengths * longer).astype(np.int32)

    def rows(self, rows: Ids, epoch: int, room: int | None = None) -> Rows:
        """The given rows in new pieces.

        If all of them, each followed by an end, must fit into a room, as many of the last ones as necessary stay as
        stored.
        """
        return self.begin(rows, epoch, room)()

    def begin(self, rows: Ids, epoch: int, room: int | None = None) -> Later:
        """The same in two halves: another side can be started before this one is waited for."""
        return partial(self.finish, rows, self.cut(rows, epoch), room)

    def finish(self, rows: Ids, cut: Later, room: int | None) -> Rows:
        stored = gathered(self.stored.rows(rows))
        drawn = cut()
        new = drawn.lengths <= self.most
        if room is not None:
            new &= within(np.where(new, drawn.lengths, stored.lengths), stored.lengths, room - len(rows))
        return chosen(drawn, stored, new)

    def cut_here(self, rows: Ids, epoch: int) -> Later:
        return lambda: self.dropout.cut(gathered(self.stored.rows(rows)), rows, epoch)


def within(drawn: Ids, stored: Ids, room: int) -> Bool[np.ndarray, " B"]:
    """Which rows may be as drawn, from the first on, so that with the rest as stored all of them fit into the room."""
    fits = np.flatnonzero(np.cumsum(drawn - stored) + stored.sum() <= room)
    return np.arange(len(drawn)) < (fits[-1] + 1 if len(fits) else 0)


def chosen(one: Rows, other: Rows, first: Bool[np.ndarray, " B"]) -> Rows:
    """Each sequence from `one` where `first` is true, and from `other` where it is not."""
    starts = np.where(first, one.starts, other.starts + len(one.ids))
    return gathered(Rows(np.concatenate([one.ids, other.ids]), starts, np.where(first, one.lengths, other.lengths)))


def one_after_the_other(sequences: Sequence[Ids]) -> Rows:
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    ids = np.concatenate(sequences) if len(sequences) else np.empty(0, np.int64)
    return Rows(ids, np.cumsum(lengths) - lengths, lengths)


def gathered(rows: Rows) -> Rows:
    """The same sequences, with nothing between them."""
    lengths = rows.lengths.astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    places = np.repeat(rows.starts - starts, lengths)
    places += np.arange(len(places))
    return Rows(np.asarray(rows.ids)[places], starts, lengths)


def starts_of_words(flat: Ids, place: Ids) -> Bool[np.ndarray, " N"]:
    """Whether each byte starts a word: words start with a sentence, and with a space."""
    return (place == 0) | (flat == SPACE)


def mixed(numbers: Any) -> Any:
    """Numbers that look random (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = np.asarray(numbers, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
