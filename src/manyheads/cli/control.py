"""Options of `manyheads translate` for what must and must not be in an output, and how long it may be."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from manyheads.cli.options import File, Whole
from manyheads.errors import OptionError

if TYPE_CHECKING:
    from manyheads.decoding.wishes import Wishes

__all__ = ["NO_CONTROL", "Control", "search_options", "wishes_of_lines"]

Text = Annotated[str, Parameter(allow_leading_hyphen=True, show_default=False)]
Phrases = Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True, negative=(), show_default=False)]
Count = Annotated[Whole, Parameter(show_default=False)]


@Parameter(name="*", group="Control")
@dataclass(frozen=True)
class Control:
    prefix: Text = ""
    "Start every output with this text, which may end inside a word."
    prefixes: Text = ""
    "File with one prefix per input line; a blank line means no prefix."
    must: Phrases = ()
    "Phrase that every output must contain, as whole words; may be repeated."
    never: Phrases = ()
    "Phrase that no output may contain as whole words; may be repeated."
    glossary: Text = ""
    "TSV file of terms: source TAB target (must appear) or source TAB !target (must not appear)."
    alternatives: Count = 0
    "Outputs per line, each with a different token after the prefix; printed as with --n-best."
    min_length: Count = 0
    "Minimum length of an output in pieces, its end included."
    max_length: Count = 0
    "Maximum length of an output in pieces, its end included."
    no_repeat: Count = 0
    "Allow no sequence of this many pieces twice in an output."
    diversity: Annotated[float, Parameter(show_default=False)] = 0.0
    "With --n-best: penalty for a word that another alternative has at the same place."


NO_CONTROL = Control()


def search_options(control: Control) -> dict[str, Any]:
    names = ("alternatives", "min_length", "max_length", "no_repeat", "diversity")
    return {name: getattr(control, name) for name in names}


def wishes_of_lines(control: Control) -> "Wishes | Iterator[Wishes]":
    """The wishes for every line, or, with --prefixes, one after the other for each line."""
    from manyheads.decoding.glossary import read_glossary
    from manyheads.decoding.wishes import Wishes

    if control.prefix and control.prefixes:
        raise OptionError(f"a line has one prefix, got --prefix {control.prefix!r} and --prefixes {control.prefixes}")
    glossary = read_glossary(control.glossary) if control.glossary else None
    wishes = Wishes(control.prefix, control.must, control.never, glossary)
    return line_by_line(wishes, control.prefixes) if control.prefixes else wishes


def line_by_line(wishes: "Wishes", path: File) -> "Iterator[Wishes]":
    from manyheads.text.lines import read_texts

    for prefix in read_texts(path):
        yield replace(wishes, prefix=prefix if prefix.strip() else "")
