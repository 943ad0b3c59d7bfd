"""Lines too long for one pass are translated in parts: cut at the end of a sentence, else at a space, else anywhere."""

from collections.abc import Iterator

__all__ = ["split_text"]

ENDS = (". ", "! ", "? ", "。", "！", "？")


def split_text(text: str, most: int) -> Iterator[str]:
    """Parts of at most `most` characters that together are the text, but for the spaces at the cuts."""
    while len(text) > most:
        at = cut_place(text, most)
        yield text[:at].rstrip(" ")
        text = text[at:].lstrip(" ")
    if text:
        yield text


def cut_place(text: str, most: int) -> int:
    """Not in the first half: parts should not be many and tiny."""
    window = text[:most]
    ends = [found + len(end) for end in ENDS if (found := window.rfind(end)) >= 0]
    space = window.rfind(" ") + 1
    return next((at for at in (max(ends, default=0), space) if at > most // 2), most)
