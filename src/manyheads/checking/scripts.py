"""Scripts: Latin, Cyrillic, Greek … The usual ones of each side are learnt from the corpus."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from manyheads.checking.examiner import Verdicts
from manyheads.text.rows import Pair

__all__ = ["Scripts"]

EAST_ASIAN = dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"), "EAST ASIAN")  # written together
KNOWN = {
    "LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "HEBREW", "ARABIC", "SYRIAC", "THAANA", "DEVANAGARI", "BENGALI",
    "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "THAI", "LAO", "TIBETAN",
    "MYANMAR", "KHMER", "ETHIOPIC", "MONGOLIAN", "CHEROKEE", "TIFINAGH",
}  # fmt: skip
USUAL = 0.25
"""A script with at least this share of a side's letters is usual there."""

BEYOND_LATIN = re.compile("[^\x00-\u024f\u1e00-\u1eff\u2000-\u20cf]")
"""All letters other than Latin are among these, so most Latin texts need no second look."""

WORD = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=1 << 16)
def script_of(letter: str) -> str | None:
    """The script of a letter, by its Unicode name; None if it belongs to no known script."""
    first = unicodedata.name(letter, "").partition(" ")[0] if letter.isalpha() else ""
    return EAST_ASIAN.get(first) or (first if first in KNOWN else None)


def scripts_of(text: str) -> Counter[str]:
    """How many letters of each script there are."""
    return Counter(filter(None, map(script_of, text)))


def mixes_scripts(text: str) -> bool:
    """Whether a word is in two scripts. A Cyrillic а in a Latin word looks right but is another letter.

    µ is Greek, and fine.
    """
    words = (set(filter(None, map(script_of, word))) for word in WORD.findall(text))
    return any(len(scripts - {"GREEK"}) > 1 for scripts in words)


class Scripts:
    """Finds sides that are mostly in a script unusual for them, or have a word in two scripts."""

    finds = ("script",)

    def __init__(self) -> None:
        self.letters: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self.usual: list[set[str]] = []

    def learn(self, pairs: Sequence[Pair]) -> None:
        for letters, texts in zip(self.letters, zip(*pairs, strict=True), strict=True):
            letters.update(scripts_of("".join(texts)))

    def settle(self) -> None:
        self.usual = [
            {script for script, count in letters.items() if count >= USUAL * letters.total()}
            for letters in self.letters
        ]

    def judge(self, pairs: Sequence[Pair]) -> Verdicts:
        return {"script": np.array([any(map(self.is_odd, pair, self.usual)) for pair in pairs], bool)}

    def is_odd(self, text: str, usual: set[str]) -> bool:
        if "LATIN" in usual and not BEYOND_LATIN.search(text):
            return False
        letters = scripts_of(text)
        unusual = sum(count for script, count in letters.items() if script not in usual)
        return 2 * unusual > letters.total() or mixes_scripts(text)
