"""Pairs, sources and targets that occur more than once, in a corpus or also in another, found by 64 bits each.

P pairs of the corpus
"""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Bool, UInt64

from manyheads.checking.examiner import Verdicts
from manyheads.errors import InputError
from manyheads.text.hashes import hash_pair, hash_text, hash_texts
from manyheads.text.rows import Pair

__all__ = ["Overlap", "Repeats"]


def seen_before(hashes: UInt64[np.ndarray, " P"]) -> Bool[np.ndarray, " P"]:
    """For every entry, whether an equal one comes before it."""
    before = np.ones(len(hashes), bool)
    before[np.unique(hashes, return_index=True)[1]] = False
    return before


class Repeats:
    """Finds repeats; the first of its kind is not one.

    It takes 24 bytes per pair to learn, twice that to settle, and 3 to judge.
    """

    finds = ("duplicate", "targets", "sources")

    def __init__(self) -> None:
        self.blocks: list[UInt64[np.ndarray, "3 N"]] = []
        self.repeats: dict[str, Bool[np.ndarray, " P"]] = {}
        self.judged = 0

    def learn(self, pairs: Sequence[Pair]) -> None:
        sources, targets = zip(*pairs, strict=True)
        whole = np.fromiter(map(hash_pair, pairs), np.uint64, len(pairs))
        self.blocks.append(np.stack([whole, hash_texts(sources), hash_texts(targets)]))

    def settle(self) -> None:
        """A new pair whose source is not new has a different target from the one before it."""
        if not self.blocks:
            return
        hashes = np.concatenate(self.blocks, axis=1)
        self.blocks.clear()
        pair, source, target = map(seen_before, hashes)
        self.repeats = {"duplicate": pair, "targets": source & ~pair, "sources": target & ~pair}

    def judge(self, pairs: Sequence[Pair]) -> Verdicts:
        block = slice(self.judged, self.judged + len(pairs))
        self.judged = block.stop
        verdicts = {name: repeats[block] for name, repeats in self.repeats.items()}
        if len(verdicts["duplicate"]) != len(pairs):
            raise InputError("a corpus must not change while it is read, got more pairs at the second reading")
        return verdicts


class Overlap:
    """Finds pairs and sources that are also in another corpus: a test set must not be trained on."""

    finds = ("overlap", "seen")

    def __init__(self, against: Iterable[Pair]) -> None:
        both = np.array([(hash_pair(pair), hash_text(pair[0])) for pair in against], np.uint64).reshape(-1, 2)
        self.pairs, self.sources = np.unique(both[:, 0]), np.unique(both[:, 1])

    def learn(self, pairs: Sequence[Pair]) -> None:
        pass

    def settle(self) -> None:
        pass

    def judge(self, pairs: Sequence[Pair]) -> Verdicts:
        whole = np.fromiter(map(hash_pair, pairs), np.uint64, len(pairs))
        sources = hash_texts([source for source, _ in pairs])
        return {"overlap": np.isin(whole, self.pairs), "seen": np.isin(sources, self.sources)}
