"""How terms are to be translated, and how not: `source term TAB target term`, `source term TAB !target term`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from manyheads.decoding.words import IsWord, appears
from manyheads.errors import InputError
from manyheads.text.lines import decode_line, read_lines

__all__ = ["Glossary", "read_glossary"]


@dataclass(frozen=True)
class Glossary:
    """
    must     (source term, target term): where the source holds the one as whole words, the output holds the other
    never    (source term, target term): where the source holds the one, the output does not hold the other
    """

    must: tuple[tuple[str, str], ...] = ()
    never: tuple[tuple[str, str], ...] = ()

    def asked_by(self, source: str, is_word: IsWord) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What must be in the output of this source, and what must not."""
        must, never = (
            tuple(target for term, target in terms if term in source and appears(term, source, is_word))
            for terms in (self.must, self.never)
        )
        return must, never

    def __bool__(self) -> bool:
        return bool(self.must or self.never)


def read_glossary(path: str) -> Glossary:
    """From a TSV file, plain or packed. All faults are named at once; blank lines are none."""
    terms, faults = [], []
    for number, line in enumerate(read_lines(path), 1):
        columns = [] if line is None else decode_line(line, path, number).split("\t")
        if len(columns) == 2 and columns[0].strip() and columns[1].removeprefix("!").strip():
            terms.append((columns[0].strip(), columns[1].strip()))
        elif line is None or line.strip():
            faults.append(number)
    if faults:
        raise InputError(
            f"a line of a glossary must be: source term TAB target term, got {path}, {in_words(faults)}",
            hint="a target term after ! must not appear",
        )
    return glossary(terms)


def glossary(terms: Iterable[tuple[str, str]]) -> Glossary:
    must, never = [], []
    for source, target in dict.fromkeys(terms):
        if target.startswith("!"):
            never.append((source, target[1:].strip()))
        else:
            must.append((source, target))
    return Glossary(tuple(must), tuple(never))


def in_words(numbers: list[int]) -> str:
    return "".join(spelt(numbers))


def spelt(numbers: list[int]) -> Iterator[str]:
    yield "line " if len(numbers) == 1 else "lines "
    yield ", ".join(map(str, numbers[:10]))
    if len(numbers) > 10:
        yield f" and {len(numbers) - 10} more"
