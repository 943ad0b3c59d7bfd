"""Minimum Bayes risk: of many samples, the one that is most like the others.

The likeliest translation may be an odd one: short, or generic. What many samples agree on is what the model means.
Agreement is measured by chrF (Eikema and Aziz 2020 call this sampling-based MBR).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from manyheads.decoding.batching import CHUNK, CHUNK_CHARACTERS, blocks
from manyheads.decoding.chrf import pairwise_chrf
from manyheads.decoding.control import blocks_with_wishes
from manyheads.decoding.options import Search
from manyheads.decoding.reading import Reading
from manyheads.decoding.translation import Translation
from manyheads.decoding.translator import Translator
from manyheads.decoding.wishes import NO_WISHES, Wishes
from manyheads.errors import OptionError

__all__ = ["agreement", "translate_by_agreement"]

MOST = 1_000
SEEDS = 2**32

HELD, HELD_CHARACTERS = 1 << 17, 1 << 24
"""Samples in memory: with 1,000 samples, those of 131 lines, or of lines with 16,777 characters together.

They still fill batches.
"""


def translate_by_agreement(
    translator: Translator,
    lines: Iterable[str],
    samples: int,
    search: Search,
    *,
    wishes: Wishes | Iterable[Wishes] = NO_WISHES,
    chunk: int = CHUNK,
    align: Reading | None = None,
) -> Iterator[Translation]:
    """Of `samples` samples of each line, take the one with the highest mean chrF against the others.

    That is its score. The samples are those of the search's seed and of the seeds after it: the result does not depend
    on the batch.
    """
    if not 2 <= samples <= MOST:
        raise OptionError(f"agreement needs 2 to {MOST:,} samples, got {samples}")
    if not search.sample:
        raise OptionError("agreement needs samples: set sample")
    searches = [replace(search, seed=(search.seed + n) % SEEDS) for n in range(samples)]
    chunk, characters = min(chunk, HELD // samples), min(CHUNK_CHARACTERS, HELD_CHARACTERS // samples)
    for first, block, wished in blocks_with_wishes(blocks(lines, chunk, characters), wishes):
        drawn = [translator.translate_block(block, one, first, wished, align) for one in searches]
        yield from map(most_agreed, zip(*drawn, strict=True))


def most_agreed(samples: Sequence[Translation]) -> Translation:
    """The sample with the highest agreement; among equals, the one that was drawn first."""
    scores = agreement([one.text for one in samples])
    best = samples[int(np.argmax(scores))]
    return replace(best, n_best=(replace(best.n_best[0], score=float(np.max(scores))),))


def agreement(texts: Sequence[str]) -> np.ndarray:
    """The mean chrF of each text against all others. Equal texts are compared once."""
    distinct = list(dict.fromkeys(texts))
    place = {text: n for n, text in enumerate(distinct)}
    which = np.array([place[text] for text in texts])
    counts = np.bincount(which)
    scores = pairwise_chrf(distinct)
    return ((scores @ counts - scores.diagonal()) / (len(texts) - 1))[which]
