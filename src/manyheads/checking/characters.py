"""Characters that should not be there, and ways to get rid of them."""

import re
from collections.abc import Callable, Mapping

from manyheads.text.corpus import CONTROL

__all__ = ["FIX_TEXT", "has_control", "has_invisible", "has_mojibake", "has_odd_space", "is_quoted", "visible"]

# Zero width and joiners out of place (between Persian or Indic letters and in emoji they are right), direction marks,
# soft hyphen, byte order mark, fillers, tags, noncharacters.
REMOVABLE = (
    "\u200b\u2060-\u2064\ufeff\u00ad\u180e\u115f\u1160\u3164\uffa0\u200e\u200f\u202a-\u202e\u2066-\u206f"
    "\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e007f"
)
JOINER = r"(?:(?<![^\s!-~])[\u200c\u200d]|[\u200c\u200d](?![^\s!-~]))"
STOOD_FOR_SOMETHING = "\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff"
TO_REMOVE = re.compile(f"[{REMOVABLE}]|{JOINER}")
INVISIBLE = re.compile(f"[{REMOVABLE}{STOOD_FOR_SOMETHING}]|{JOINER}")

SEPARATING = re.compile(r"[\x0a-\x0d\x1c-\x1f\x85]")
ODD_SPACE = re.compile(r"^\s|\s$|\s\s")
SEVERAL_SPACES = re.compile(r"\s\s+")

# UTF-8 decoded as Windows-1252. Some of these bytes are also quotation marks after an accented capital, so a single one
# counts only after Ã and Â, where it is hardly ever anything else.
FOLLOWING = "".join(bytes([b]).decode("cp1252", errors="ignore") or chr(b) for b in range(0x80, 0xC0))
FOLLOWING = f"[{re.escape(FOLLOWING)}]"
MOJIBAKE = re.compile(
    f"[ÃÂ]{FOLLOWING}|(?:[ÄÅÎÏÐÑØÙÚÛ]{FOLLOWING}){{2}}|â€{FOLLOWING}|ï»¿|ðŸ{FOLLOWING}|(?:[ã-éà]{FOLLOWING}{{2}}){{2}}"
)


def has_control(text: str) -> bool:
    return CONTROL.search(text) is not None


def has_invisible(text: str) -> bool:
    return not text.isascii() and INVISIBLE.search(text) is not None


def has_mojibake(text: str) -> bool:
    return not text.isascii() and MOJIBAKE.search(text) is not None


def has_odd_space(text: str) -> bool:
    return ODD_SPACE.search(text) is not None


def is_quoted(text: str) -> bool:
    """Whether a text is quoted as a spreadsheet quotes a cell: in quotation marks, with those inside doubled.

    Marks around a sentence alone may be its own.
    """
    inside = text[1:-1]
    return text[:1] == text[-1:] == '"' and '""' in inside and '"' not in inside.replace('""', "")


def without_control(text: str) -> str:
    return CONTROL.sub("", SEPARATING.sub(" ", text))


def without_invisible(text: str) -> str:
    return TO_REMOVE.sub("", text)


def without_quotes(text: str) -> str:
    return text[1:-1].replace('""', '"') if is_quoted(text) else text


def with_single_spaces(text: str) -> str:
    return SEVERAL_SPACES.sub(" ", text.strip())


FIX_TEXT: Mapping[str, Callable[[str], str]] = {
    "control": without_control,
    "invisible": without_invisible,
    "quoted": without_quotes,
    "space": with_single_spaces,
}
"""Applied in this order, because what is removed may leave spaces behind."""


def visible(text: str) -> str:
    """The text, with escape codes for characters that one could not see, or that a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
