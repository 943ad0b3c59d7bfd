"""Which pieces begin a word: a table, so that the words of a whole batch are found at once.

bpe          what begins with a space; and, where a script knows no spaces, every piece that begins with a letter of it
characters   every character; of one that is spelt in bytes, the first
symbols      every piece
imported     what has no "##" before it, or, of pieces of bytes, what has a space
"""

import re

import numpy as np
from jaxtyping import Bool

from manyheads.text.bytepairs import BytePairs
from manyheads.text.foreign import ForeignPieces
from manyheads.text.listed import Characters
from manyheads.text.tokenizer import Tokenizer

__all__ = ["word_begins"]

UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Letters of Thai, Lao, Burmese, Khmer, Chinese and Japanese. Without them a line of these would be one word."""


def word_begins(tokenizer: Tokenizer) -> Bool[np.ndarray, " pieces"]:
    """For each id; what stands first in a text begins a word in any case."""
    match tokenizer:
        case BytePairs():
            return np.array([begins_spelt(spelling) for spelling in tokenizer.spellings])
        case ForeignPieces():
            return np.array([tokenizer.begins_word(i) for i in range(tokenizer.size)])
        case Characters():
            inside = (tokenizer.is_byte(i) and is_inside(tokenizer.spelling(i)) for i in range(tokenizer.size))
            return ~np.fromiter(inside, bool)
        case _:
            return np.ones(tokenizer.size, bool)


def begins_spelt(spelling: bytes) -> bool:
    return spelling.startswith(b" ") or bool(UNSPACED.match(first_letter(spelling)))


def first_letter(spelling: bytes) -> str:
    """Of bytes that may end within a letter: the first of those that it can become. Nothing, if they begin within one."""
    return (spelling[:4] + b"\x80\x80\x80")[:4].decode("utf-8", errors="ignore")[:1] if spelling[:1] >= b"\xc0" else ""


def is_inside(spelling: bytes) -> bool:
    """Bytes of UTF-8 that begin with these two bits go on with a letter."""
    return spelling[0] & 0b1100_0000 == 0b1000_0000
