"""chrF of every text against every other, at once: what minimum Bayes risk needs N² of for N samples.

sacreBLEU's sentence chrF with its defaults (characters up to 6-grams, blanks left out, recall counts twice), to which a test
holds it equal. sacreBLEU counts anew for every pair, here each text is counted once: for 100 samples of a sentence that is
seconds there and milliseconds here.

N texts · G distinct n-grams of them
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

__all__ = ["pairwise_chrf"]

ORDERS = 6
BETA_SQUARED = 4


def pairwise_chrf(texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
    """chrF, from 0 to 100, of each text (row) as a hypothesis with each other (column) as its reference."""
    letters = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for order in range(1, ORDERS + 1):
        counts = count_ngrams(letters, order)
        matches, sizes = count_matches(counts), counts.sum(1)
        both = (sizes[:, None] > 0) & (sizes[None, :] > 0)  # a text too short for an order is not judged by it
        precision += both * matches / np.maximum(1, sizes)[:, None]
        recall += both * matches / np.maximum(1, sizes)[None, :]
        orders += both
    precision, recall = precision / np.maximum(1, orders), recall / np.maximum(1, orders)
    below = BETA_SQUARED * precision + recall
    return 100 * (1 + BETA_SQUARED) * precision * recall / np.where(below > 0, below, 1)


def count_ngrams(texts: Sequence[str], order: int) -> Int[np.ndarray, "N G"]:
    """How often each text has each n-gram."""
    ngrams = [[text[at : at + order] for at in range(len(text) - order + 1)] for text in texts]
    columns = {ngram: n for n, ngram in enumerate(dict.fromkeys(ngram for row in ngrams for ngram in row))}
    counts = np.zeros((len(texts), len(columns)), np.int64)
    for row, its_own in enumerate(ngrams):
        np.add.at(counts[row], [columns[ngram] for ngram in its_own], 1)
    return counts


def count_matches(counts: Int[np.ndarray, "N G"]) -> Int[np.ndarray, "N N"]:
    """N-grams that two texts share. A text has few of all there are: only those are looked at."""
    matches = np.zeros((len(counts), len(counts)), np.int64)
    for row, its_own in enumerate(counts):
        present = its_own.nonzero()[0]
        matches[row] = np.minimum(its_own[present], counts[:, present]).sum(1)
    return matches
