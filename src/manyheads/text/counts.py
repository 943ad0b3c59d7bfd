"""What was met in a corpus: counts, to be reported, and faults, collected so that one run shows them all."""

from dataclasses import dataclass, field

from manyheads.errors import InputError

__all__ = ["Counts", "Faults"]

SHOWN = 5

LEFT_OUT = {
    "not_utf8": "not UTF-8",
    "no_pair": "not a pair of texts",
    "blank": "blank on one side",
    "too_long": "too long",
    "incomplete": "without one of the two languages",
    "alternatives": "another version in the same language",
    "untranslated": "not translated",
    "fuzzy": "marked fuzzy",
    "obsolete": "marked obsolete",
}
KEPT = {
    "replaced": "not UTF-8, kept with U+FFFD for what could not be read",
    "newline": "with a newline inside, kept with a space instead",
    "tab": "with a tab inside, kept with a space instead",
    "cut": "longer than the limit, kept and cut",
    "control": "with control characters, kept",
    "in_dev": "also in the development set, kept: its scores will flatter",
}


@dataclass
class Counts:
    """What was met in a corpus.

    pairs          pairs that can be used
    blank          pairs with nothing on one side: left out
    too_long       pairs with a line of more than a megabyte or more than `data.max_length` pieces: left out
    control        pairs with control characters: kept as they are
    not_utf8       lines that could not be read: left out, as `data.bad_lines` says
    no_pair        lines that are not a pair: left out, as `data.bad_lines` says
    replaced       lines whose bad bytes became U+FFFD, as `data.bad_lines` says: kept
    newline        pairs with a newline inside, which became a space: kept
    tab            texts with a tab inside, which became a space: kept
    cut            texts with more than `data.max_length` pieces, or more than the model reads: their beginning is kept
    incomplete     units of a TMX file without one of the languages: left out
    alternatives   further texts in the same language in a unit of a TMX file: left out
    untranslated, fuzzy, obsolete   entries of a PO file: left out
    in_dev         pairs that are also in the development set: kept
    examples       for each of these, where the first one is
    """

    pairs: int = 0
    blank: int = 0
    too_long: int = 0
    control: int = 0
    not_utf8: int = 0
    no_pair: int = 0
    replaced: int = 0
    newline: int = 0
    tab: int = 0
    cut: int = 0
    incomplete: int = 0
    alternatives: int = 0
    untranslated: int = 0
    fuzzy: int = 0
    obsolete: int = 0
    in_dev: int = 0
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, what: str, corpus: object, line: int, times: int = 1) -> None:
        if times:
            setattr(self, what, getattr(self, what) + times)
            self.examples.setdefault(what, f"{corpus}, line {line:,}")

    @property
    def left_out(self) -> int:
        return sum(getattr(self, what) for what in LEFT_OUT)

    def sentences(self) -> list[str]:
        """What the user should know: a sentence for each count above zero."""
        said = {what: f"{meaning}, left out" for what, meaning in LEFT_OUT.items()} | KEPT
        return [
            f"{getattr(self, what):,} {meaning} (the first: {self.examples[what]})"
            for what, meaning in said.items()
            if getattr(self, what)
        ]


class Faults:
    """What is wrong with a file, collected so that one run shows all of it."""

    def __init__(self, corpus: object) -> None:
        self.corpus, self.count = corpus, 0
        self.first: list[str] = []
        self.hint: str | None = None

    def add(self, error: InputError) -> None:
        self.count += 1
        self.hint = self.hint or error.hint
        if len(self.first) < SHOWN:
            self.first.append(error.message)

    def refuse(self) -> None:
        if self.count == 1:
            raise InputError(self.first[0], self.hint)
        if self.count:
            more = f"\n  - and {self.count - SHOWN:,} more" if self.count > SHOWN else ""
            listed = "".join(f"\n  - {message}" for message in self.first)
            raise InputError(f"{self.corpus}: {self.count:,} faults{listed}{more}", self.hint)
