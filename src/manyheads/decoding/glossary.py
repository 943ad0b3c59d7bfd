"""How terms must be translated, and how not: `source term TAB target term`, `source term TAB !target term`."""

from collections.abc import Iterable
from dataclasses import dataclass

from manyheads.decoding.wishes import check_phrase
from manyheads.decoding.words import IsWord, appears
from manyheads.errors import InputError
from manyheads.text.counts import Faults
from manyheads.text.lines import decode_line, read_lines

__all__ = ["Glossary", "read_glossary"]


@dataclass(frozen=True)
class Glossary:
    """Pairs of a source term and a target term.

    must     if the source contains the first as whole words, the output contains the second
    never    if the source contains the first as whole words, the output does not contain the second
    """

    must: tuple[tuple[str, str], ...] = ()
    never: tuple[tuple[str, str], ...] = ()

    def asked_by(self, source: str, is_word: IsWord) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The phrases that the output of this source must contain, and those that it must not."""
        must, never = (
            tuple(target for term, target in terms if term in source and appears(term, source, is_word))
            for terms in (self.must, self.never)
        )
        return must, never

    def __bool__(self) -> bool:
        return bool(self.must or self.never)


def read_glossary(path: str) -> Glossary:
    """Read a TSV file, plain or compressed. All faults are reported at once; blank lines are skipped."""
    terms, faults = [], Faults(path)
    for number, line in enumerate(read_lines(path), 1):
        try:
            if line is None or line.strip():
                terms.append(read_term(line, path, number))
        except InputError as fault:
            faults.add(fault)
    faults.refuse()
    return glossary(terms)


def read_term(line: bytes | None, path: str, number: int) -> tuple[str, str]:
    columns = [] if line is None else [column.strip() for column in decode_line(line, path, number).split("\t")]
    if len(columns) != 2 or not columns[0] or not without_mark(columns[1]):
        raise InputError(
            f"a line of a glossary must be: source term TAB target term, got {path}, line {number}",
            hint="a ! before a target term means that it must not appear",
        )
    try:
        check_phrase(without_mark(columns[1]))
    except InputError as fault:
        raise InputError(f"{path}, line {number}: {fault.message}", fault.hint) from None
    return columns[0], columns[1]


def without_mark(target: str) -> str:
    return target.removeprefix("!").strip()


def glossary(terms: Iterable[tuple[str, str]]) -> Glossary:
    must, never = [], []
    for source, target in dict.fromkeys(terms):
        (never if target.startswith("!") else must).append((source, without_mark(target)))
    return Glossary(tuple(must), tuple(never))
