"""Lines too long for one pass are translated in parts: cut at the end of a sentence, else at a space, else anywhere."""

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["join_parts", "join_sentences", "split_sentences", "split_text"]

WIDE_ENDS = ("。", "！", "？")
SENTENCE = re.compile(r"(?<=[.!?…])[ \u00a0]+|(?<=[。！？])")
ENDS = (". ", "! ", "? ", *WIDE_ENDS)


def split_text(text: str, most: int) -> Iterator[str]:
    """The text if it fits; otherwise parts of at most `most` characters, without spaces around them, and none blank."""
    if len(text) <= most:
        yield text
        return
    start = 0
    while start < len(text):
        window = text[start : start + most]
        end = start + (cut_place(window) if start + most < len(text) else len(window))
        part = text[start:end].strip(" ")
        if part.strip():
            yield part
        start = end


def cut_place(window: str) -> int:
    """The length of the next part: more than half the window, because parts should not be many and tiny."""
    ends = [found + len(end) for end in ENDS if (found := window.rfind(end)) >= 0]
    space = window.rfind(" ") + 1
    return next((at for at in (max(ends, default=0), space) if at > len(window) // 2), len(window))


def split_sentences(text: str) -> list[str]:
    """Cut after every full stop, question mark or exclamation mark that ends a word."""
    return [part for part in SENTENCE.split(text) if part.strip()]


def join_sentences(sentences: Sequence[str], sizes: Iterable[int], most: int) -> list[str]:
    """Join sentences into groups of at most `most` pieces; a longer sentence stays alone."""
    groups: list[str] = []
    room = 0
    for sentence, size in zip(sentences, sizes, strict=True):
        if groups and size <= room:
            groups[-1] = join_parts([groups[-1], sentence])
            room -= size
        else:
            groups.append(sentence)
            room = most - size
    return groups


def join_parts(parts: Iterable[str]) -> str:
    """Join with spaces, except after a wide full stop, question mark or exclamation mark."""
    text = ""
    for part in parts:
        text += part if not text or text.endswith(WIDE_ENDS) else f" {part}"
    return text
