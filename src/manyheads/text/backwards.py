"""The same pieces in reverse order, for a model that writes a text from its end.

A model writes first what it is sure of, and what comes first steers all the rest. A model that starts at the end makes
other mistakes than one that starts at the beginning, so two such models judge each other better than two of the same
kind (`decoding/second_opinion.py`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from manyheads.text.tokenizer import PACKED, Tokenizer
from manyheads.text.units import Units

__all__ = ["Backwards"]


class Backwards:
    """A tokenizer whose ids are in the order of writing.

    Text goes in and comes out as usual; words are counted from the beginning of the text.
    """

    def __init__(self, forwards: Tokenizer) -> None:
        self.forwards, self.kind, self.size = forwards, forwards.kind, forwards.size

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [ids[::-1] for ids in self.forwards.encode(texts)]

    def encode_packed(self, texts: Sequence[str]) -> list[bytes]:
        return [np.frombuffer(ids, PACKED)[::-1].tobytes() for ids in self.forwards.encode_packed(texts)]

    def decode(self, ids: Iterable[int]) -> str:
        return self.forwards.decode(turned(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return self.forwards.pieces(turned(ids))[::-1]

    def units(self, ids: Iterable[int]) -> Units:
        return self.forwards.units(turned(ids))[::-1]

    def as_json(self) -> dict[str, Any]:
        return {**self.forwards.as_json(), "backwards": True}


def turned(ids: Iterable[int]) -> list[int]:
    return list(ids)[::-1]
