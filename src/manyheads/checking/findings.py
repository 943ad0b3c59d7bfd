"""Everything that can be found in a corpus, by name. The report and `--drop` use these names."""

from collections.abc import Mapping
from dataclasses import dataclass

from manyheads.text.counts import LEFT_OUT

__all__ = ["FINDINGS", "FIXES", "UNUSABLE", "Finding"]


@dataclass(frozen=True)
class Finding:
    """Something that may be wrong with a pair.

    meaning   what it says of a pair, in a few words
    limit     the threshold, if it can be chosen
    """

    meaning: str
    limit: float | None = None


UNUSABLE: Mapping[str, str] = LEFT_OUT
"""Rows of a file that are not a pair to learn from. Training leaves them out, and so does cleaning."""

FINDINGS: Mapping[str, Finding] = {
    "duplicate": Finding("the same pair was there before"),
    "targets": Finding("its source was there before, with another target"),
    "sources": Finding("its target was there before, with another source"),
    "overlap": Finding("the pair is in the files of --against"),
    "seen": Finding("its source is in the files of --against"),
    "same": Finding("source and target are the same"),
    "length": Finding("a side of more than {limit:g} pieces", 255),
    "ratio": Finding("a side {limit:g} times as long as usual beside the other", 3),
    "numbers": Finding("each side has a number that the other has not"),
    "repetition": Finding("the same few words again and again"),
    "markup": Finding("a side of nothing but addresses, markup or signs"),
    "swapped": Finding("each side looks like the other's language"),
    "language": Finding("one side looks like the other's language"),
    "script": Finding("an unexpected script, or two scripts in a word"),
    "mojibake": Finding("text decoded wrongly: Ã¤ for ä"),
    "quoted": Finding('a side as a spreadsheet writes it: "He said ""yes"""'),
    "control": Finding("control characters"),
    "invisible": Finding("invisible, private or replaced characters"),
    "space": Finding("space at an end, or several in a row"),
    "newline": Finding("a newline inside, read as a space"),
}

FIXES: Mapping[str, str] = {
    "control": "control characters are removed, or become a space where they separate",
    "invisible": "invisible characters are removed, but for U+FFFD and private ones, which stood for something",
    "quoted": "quotation marks of a spreadsheet are taken away, those inside become single",
    "space": "several spaces become one, those at the ends none",
    "swapped": "swapped sides are swapped back",
}
