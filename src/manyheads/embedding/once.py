"""Vectors of texts that are needed several times, computed once."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from manyheads.embedding.embedder import Embedded, Embedder

__all__ = ["EmbeddedOnce"]


class EmbeddedOnce:
    """The vectors of texts, looked up by text.

    found   by text

    N requested texts · D width
    """

    def __init__(self, texts: Iterable[str], embedder: Embedder) -> None:
        self.found: dict[str, Embedded] = {one.text: one for one in embedder.embed(dict.fromkeys(texts))}

    def __call__(self, texts: Iterable[str]) -> Float[np.ndarray, "N D"]:
        return np.stack([self.found[text].vector for text in texts])
