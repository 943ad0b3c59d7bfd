"""Texts known by 64 bits each: repeats among millions of texts are found without keeping any of them.

The chance that two of ten million different texts share a hash is three in a million.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from jaxtyping import UInt64

from manyheads.text.rows import Pair

__all__ = ["hash_pair", "hash_text", "hash_texts"]


def hash_text(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")


def hash_pair(pair: Pair) -> int:
    return hash_text("\n".join(pair))  # no side has a newline


def hash_texts(texts: Sequence[str]) -> UInt64[np.ndarray, " N"]:
    return np.fromiter(map(hash_text, texts), np.uint64, len(texts))
