"""`manyheads.align`: which words belong together in the pairs of files."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from manyheads.decoding.every_pair import of_every_pair
from manyheads.decoding.links import Alignment
from manyheads.decoding.translator import Translator
from manyheads.text.corpus import Paths

__all__ = ["align"]

NO_ALIGNMENT = Alignment((), truncated=True)


def align(
    model: str | Path | Translator, data: Paths, *, head: str | None = None, device: str = "auto"
) -> Iterator[Alignment]:
    """Yield the links of every pair of `data`, in order; a pair with a blank side has none.

    head   the attention to read, "2.3" or "2" for the mean of a layer, instead of the one in the recipe
    """
    translator = Translator.of(model, device, "fp32")
    yield from of_every_pair(translator, data, partial(translator.align, head=head), NO_ALIGNMENT)
