"""chrF of every text against every other, at once: minimum Bayes risk needs N² of these for N samples.

This is sacreBLEU's sentence chrF with its defaults (characters up to 6-grams, blanks left out, recall counts twice); a
test holds it equal. sacreBLEU counts anew for every pair, while here each text is counted once: for 100 samples of a
sentence, that is milliseconds instead of seconds.

Most n-grams are in few texts, so only those that a text has are kept: memory grows with the texts, not with N times the
number of all n-grams.

N texts · C characters of all of them · G distinct n-grams · E entries: a text, an n-gram in it, and how often
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

__all__ = ["pairwise_chrf"]

ORDERS = 6
BETA_SQUARED = 4


class Counts(NamedTuple):
    """The n-grams of texts, one text after the other."""

    texts: Int[np.ndarray, " E"]
    ngrams: Int[np.ndarray, " E"]
    counts: Int[np.ndarray, " E"]


def pairwise_chrf(texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
    """chrF, from 0 to 100, of each text (row) as a hypothesis with each other (column) as its reference."""
    letters = ["".join(text.split()) for text in texts]
    lengths = np.array([len(text) for text in letters])
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for order, counts in enumerate(count_ngrams(letters), 1):
        matches, sizes = count_matches(counts, len(texts)), np.maximum(0, lengths - order + 1)
        both = (sizes[:, None] > 0) & (sizes[None, :] > 0)  # a text too short for an order is not judged by it
        precision += both * matches / np.maximum(1, sizes)[:, None]
        recall += both * matches / np.maximum(1, sizes)[None, :]
        orders += both
    precision, recall = precision / np.maximum(1, orders), recall / np.maximum(1, orders)
    below = BETA_SQUARED * precision + recall
    return 100 * (1 + BETA_SQUARED) * precision * recall / np.where(below > 0, below, 1)


def count_ngrams(texts: Sequence[str]) -> Iterator[Counts]:
    """For each order, how often each text has each n-gram.

    All texts are one row of characters. An n-gram is the shorter one that it starts with, known by its number, and one
    more character. N-grams that reach from one text into the next are left out.
    """
    characters = number(np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32))
    text_at = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    ngrams = np.zeros(len(characters) + 1, np.int64)
    for order in range(1, ORDERS + 1):
        last = characters[order - 1 :]
        ngrams = number(ngrams[: len(last)] * (characters.max(initial=0) + 1) + last)
        inside = text_at[: len(last)] == text_at[order - 1 :]
        yield count(text_at[: len(last)][inside], ngrams[inside])


def number(values: Int[np.ndarray, " C"]) -> Int[np.ndarray, " C"]:
    """Equal values get equal numbers, from 0."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def count(texts: Int[np.ndarray, " n"], ngrams: Int[np.ndarray, " n"]) -> Counts:
    distinct = ngrams.max(initial=0) + 1
    places, counts = np.unique(texts * distinct + ngrams, return_counts=True)
    return Counts(places // distinct, places % distinct, counts)


def count_matches(counts: Counts, texts: int) -> Int[np.ndarray, "N N"]:
    """The number of n-grams that each two texts share."""
    matches = np.zeros((texts, texts), np.int64)
    there, starts, sizes = np.unique(counts.texts, return_index=True, return_counts=True)
    its_own = np.zeros(counts.ngrams.max(initial=0) + 1, np.int64)
    for row, start, size in zip(there, starts, sizes, strict=True):
        own = slice(start, start + size)
        its_own[counts.ngrams[own]] = counts.counts[own]
        matches[row, there] = np.add.reduceat(np.minimum(its_own[counts.ngrams], counts.counts), starts)
        its_own[counts.ngrams[own]] = 0
    return matches
