"""`manyheads.align`: which words of pairs in files belong together."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from manyheads.decoding.batching import CHUNK
from manyheads.decoding.links import Alignment
from manyheads.decoding.translator import Translator
from manyheads.text.corpus import Counts, Paths, check_paths, read_every_pair

__all__ = ["align"]

NO_ALIGNMENT = Alignment((), truncated=True)
"""Of a pair with a line that is too long to be held in memory."""


def align(
    model: str | Path | Translator, data: Paths, *, head: str | None = None, device: str = "auto"
) -> Iterator[Alignment]:
    """The links of every pair of `data`, in order; a pair with a blank side has none.

    head   the attention to read, "2.3" or "2" for the mean of a layer, instead of what the recipe says
    """
    translator = model if isinstance(model, Translator) else Translator.load(model, device, "fp32")
    corpora = check_paths(data, "--data", translator.recipe.data.reading)
    pairs = chain.from_iterable(read_every_pair(corpus, Counts()) for corpus in corpora)
    while block := list(islice(pairs, CHUNK)):
        found = translator.align([pair or ("", "") for _, pair in block], head)
        yield from (NO_ALIGNMENT if pair is None else one for one, (_, pair) in zip(found, block, strict=True))
