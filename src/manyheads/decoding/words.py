"""What a word is to someone who names one: "cat" is in "a cat." and not in "category"."""

import unicodedata
from collections.abc import Callable
from functools import cache

from manyheads.text.listed import Symbols
from manyheads.text.tokenizer import Tokenizer

__all__ = ["IsWord", "appears", "word_characters"]

IsWord = Callable[[str], bool]
"""Does this character belong to the word beside it?"""

UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),
    (0x3400, 0x9FFF),  # Han
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
"""Scripts without spaces between words. There, any character may begin or end a word."""


@cache
def of_a_word(character: str) -> bool:
    """True for letters, digits, marks on them, and the underscore, in scripts that put spaces between words."""
    code = ord(character)
    if any(first <= code <= last for first, last in UNSPACED):
        return False
    return character == "_" or unicodedata.category(character)[0] in "LNM"


def of_a_symbol(character: str) -> bool:
    return character != " "


def word_characters(tokenizer: Tokenizer) -> IsWord:
    """The rule for a tokenizer. If it makes one piece of whatever stands between spaces, that is one word, too."""
    return of_a_symbol if isinstance(tokenizer, Symbols) else of_a_word


def appears(phrase: str, text: str, is_word: IsWord) -> bool:
    """True if the phrase is in the text as whole words.

    An end of the phrase needs a boundary beside it only if the character at that end is part of a word.
    """
    start = text.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        inside_left = start > 0 and is_word(text[start - 1]) and is_word(phrase[0])
        inside_right = end < len(text) and is_word(text[end]) and is_word(phrase[-1])
        if not inside_left and not inside_right:
            return True
        start = text.find(phrase, start + 1)
    return False
