"""What an output must begin with, must contain, and must never contain."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from manyheads.errors import InputError, OptionError, brief
from manyheads.text.tokenizer import check_line

if TYPE_CHECKING:
    from manyheads.decoding.glossary import Glossary

__all__ = ["NO_WISHES", "Wishes", "check_phrase"]

LONGEST_PHRASE, LONGEST_PREFIX, MOST_PHRASES = 200, 1_000, 1_000
"""Limits on wishes.

MOST_PHRASES is more than a glossary finds in any sentence: one line must not stop the work on all others.
"""


@dataclass(frozen=True)
class Wishes:
    """The wishes for one line.

    prefix     the output begins with this text; it may end inside a word, which then goes on
    must       phrases that the output contains as whole words, if the limit on its length allows
    never      phrases that it does not contain as whole words
    glossary   more of both, depending on the words of the source

    `never` takes precedence: a phrase in `must` that contains a forbidden one is left out. If a line is translated in
    parts, the first part owes the prefix, the longest part the phrases in `must`, and each part what the glossary says
    of its own words; none may contain a forbidden phrase.
    """

    prefix: str = ""
    must: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    glossary: "Glossary | None" = None

    def __post_init__(self) -> None:
        if not isinstance(self.prefix, str):
            raise OptionError(f"a prefix must be text, got {brief(self.prefix)}")
        if len(check_line(self.prefix)) > LONGEST_PREFIX:
            raise InputError(f"a prefix may have at most {LONGEST_PREFIX:,} characters, got {len(self.prefix):,}")
        if self.glossary is not None and not hasattr(self.glossary, "asked_by"):
            raise OptionError(
                f"a glossary must be a Glossary, got {brief(self.glossary)}",
                hint="read_glossary(path) reads one from a file",
            )
        for name in ("must", "never"):
            phrases = getattr(self, name)
            if isinstance(phrases, str) or not isinstance(phrases, (tuple, list)):
                raise OptionError(
                    f"{name} takes a list of phrases, got {brief(phrases)}", hint=f"{name}=[{brief(phrases)}]"
                )
            if len(phrases) > MOST_PHRASES:
                raise OptionError(
                    f"a line may have at most {MOST_PHRASES} phrases of each kind, got {len(phrases):,} for {name}"
                )
            object.__setattr__(self, name, tuple(dict.fromkeys(map(check_phrase, phrases))))

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


def check_phrase(phrase: str) -> str:
    if not isinstance(phrase, str):
        raise OptionError(f"a phrase must be text, got {brief(phrase)}")
    if not phrase or phrase != phrase.strip():
        raise InputError(f"a phrase must start and end with something other than a space, got {brief(phrase)}")
    if len(phrase) > LONGEST_PHRASE:
        raise InputError(f"a phrase may have at most {LONGEST_PHRASE} characters, got {len(phrase)}: {brief(phrase)}")
    if "\ufffd" in phrase:
        raise InputError(f"a phrase must be valid Unicode, got the replacement character U+FFFD in {brief(phrase)}")
    return check_line(phrase)


NO_WISHES = Wishes()
