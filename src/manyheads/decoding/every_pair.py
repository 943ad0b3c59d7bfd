"""A result for every pair of files, in order: as many results as there are pairs."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import TypeVar

from manyheads.decoding.batching import CHUNK
from manyheads.decoding.translator import Translator
from manyheads.text.corpus import Counts, Pair, Paths, check_paths, read_every_pair

__all__ = ["of_every_pair"]

Result = TypeVar("Result")


def of_every_pair(
    translator: Translator, data: Paths, compute: Callable[[list[Pair]], list[Result]], too_long: Result
) -> Iterator[Result]:
    """Yield what `compute` gives for each pair; `too_long` for one with a line too long to be held in memory."""
    corpora = check_paths(data, "--data", translator.recipe.data.reading)
    pairs = chain.from_iterable(read_every_pair(corpus, Counts()) for corpus in corpora)
    while block := [pair for _, pair in islice(pairs, CHUNK)]:
        found = compute([pair or ("", "") for pair in block])
        yield from (too_long if pair is None else one for one, pair in zip(found, block, strict=True))
