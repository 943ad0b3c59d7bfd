"""The options of `manyheads translate` that say what must be in an output, and what must not."""

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
    "Every output begins with this text. It may end inside a word."
    prefixes: Text = ""
    "A file: each output begins with the text of its line; a blank line asks for nothing."
    must: Phrases = ()
    "A phrase that every output holds, as whole words. May be given several times."
    never: Phrases = ()
    "A phrase that no output holds as whole words. May be given several times."
    glossary: Text = ""
    "A TSV file of: source term TAB target term, which must appear; or source term TAB !target term, which must not."
    alternatives: Count = 0
    "Outputs a line that each go on by another token after the prefix; printed like those of --n-best."
    min_length: Count = 0
    "Pieces that an output has at least, its end counted."
    max_length: Count = 0
    "Pieces that an output has at most, its end counted."
    no_repeat: Count = 0
    "No sequence of so many pieces is twice in an output."
    diversity: Annotated[float, Parameter(show_default=False)] = 0.0
    "With --n-best: the price of a word that another alternative has at the same place."


NO_CONTROL = Control()


def search_options(control: Control) -> dict[str, Any]:
    names = ("alternatives", "min_length", "max_length", "no_repeat", "diversity")
    return {name: getattr(control, name) for name in names}


def wishes_of_lines(control: Control) -> "Wishes | Iterator[Wishes]":
    """The same for every line, or, if every line has a prefix of its own, one after the other."""
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
