"""What can be told about a pair by looking at it alone."""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from manyheads.checking.characters import has_control, has_invisible, has_mojibake, has_odd_space, is_quoted
from manyheads.checking.examiner import Verdicts
from manyheads.text.rows import Pair

__all__ = ["Texts"]

NUMBER = re.compile(r"\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?!\d)|\d+")
NO_DIGIT = re.compile(r"\D")
MARKUP = re.compile(r"https?://\S+|www\.\S+|<[^<>]*>|&#?\w+;|\{[^{}]*\}")
MAIL = re.compile(r"[^@]+@[^@]+\.\w+")
STUTTER = re.compile(r"([^\W\d_]{1,4}?)\1{9}")
TIMES = 4


def has_other_numbers(source: str, target: str) -> bool:
    """Whether each side has a number that the other lacks.

    A number in words, or a month in digits, is on one side alone.
    """
    left, right = numbers(source), numbers(target)
    return bool(left - right and right - left)


def numbers(text: str) -> set[str]:
    return {NO_DIGIT.sub("", number).lstrip("0") for number in NUMBER.findall(text)}


def is_repetitive(text: str) -> bool:
    """Whether words occur at least four times on average, or a syllable ten times in a row."""
    words = text.split()
    return (len(words) >= TIMES and len(words) >= TIMES * len(set(words))) or STUTTER.search(text) is not None


def is_markup(text: str) -> bool:
    """Whether no letter or digit is left once addresses, tags, entities and placeholders are removed."""
    words = MARKUP.sub(
        " ", text
    ).split()  # word by word: a search for addresses in a megabyte without a space takes hours
    return not any(any(map(str.isalnum, word)) and not MAIL.fullmatch(word) for word in words)


def either(test: Callable[[str], bool]) -> Callable[[str, str], bool]:
    return lambda source, target: test(source) or test(target)


TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "same": str.__eq__,
    "numbers": has_other_numbers,
    "repetition": either(is_repetitive),
    "markup": either(is_markup),
    "mojibake": either(has_mojibake),
    "quoted": either(is_quoted),
    "control": either(has_control),
    "invisible": either(has_invisible),
    "space": either(has_odd_space),
}


class Texts:
    """The examiner for single pairs. It has nothing to learn."""

    finds = tuple(TESTS)

    def learn(self, pairs: Sequence[Pair]) -> None:
        pass

    def settle(self) -> None:
        pass

    def judge(self, pairs: Sequence[Pair]) -> Verdicts:
        return {name: np.fromiter((test(*pair) for pair in pairs), bool, len(pairs)) for name, test in TESTS.items()}
