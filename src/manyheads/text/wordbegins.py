"""Which pieces begin a word: a table, so that the words of an entire batch are found at once.

bpe          pieces that begin with a space, or with a letter of a script that does not use spaces
characters   every character; if it is spelt in bytes, the first of them
symbols      every piece
imported     pieces without a leading "##"; byte-level pieces that begin with a space
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
"""Letters of Thai, Lao, Burmese, Khmer, Chinese and Japanese. Without this rule, a line of these would be one word."""


def word_begins(tokenizer: Tokenizer) -> Bool[np.ndarray, " pieces"]:
    """For each id, whether it begins a word. (The first piece of a text does in any case, whatever the table says.)"""
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
    """The letter that a spelling begins with, or "" if that is ASCII or if the bytes start inside a letter.

    If the bytes end inside the letter, it is the first letter that they can be completed to.
    """
    return (spelling[:4] + b"\x80\x80\x80")[:4].decode("utf-8", errors="ignore")[:1] if spelling[:1] >= b"\xc0" else ""


def is_inside(spelling: bytes) -> bool:
    """Whether a spelling starts inside a letter: UTF-8 bytes whose top bits are 10 continue one."""
    return spelling[0] & 0b1100_0000 == 0b1000_0000
