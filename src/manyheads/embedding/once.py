"""Vectors of texts that are asked for several times, computed once."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from manyheads.embedding.embedder import Embedded, Embedder

__all__ = ["EmbeddedOnce"]


class EmbeddedOnce:
    """What an embedder makes of texts. N of those that are asked for · D width

    found   by text
    """

    def __init__(self, texts: Iterable[str], embedder: Embedder) -> None:
        self.found: dict[str, Embedded] = {one.text: one for one in embedder.embed(dict.fromkeys(texts))}

    def __call__(self, texts: Iterable[str]) -> Float[np.ndarray, "N D"]:
        return np.stack([self.found[text].vector for text in texts])
