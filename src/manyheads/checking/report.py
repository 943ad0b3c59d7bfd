"""What `data check` reports: a count, a share and examples of everything it found."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from manyheads.checking.examine import Judged, Place
from manyheads.checking.findings import FINDINGS, UNUSABLE
from manyheads.checking.lengths import middle

__all__ = ["Example", "Lengths", "Report"]


@dataclass(frozen=True)
class Example:
    """Where something was found, and the text; only a source if the row is not a pair."""

    file: str
    line: int
    source: str
    target: str = ""


@dataclass(frozen=True)
class Lengths:
    """The lengths of one side's texts, in pieces."""

    mean: float
    median: int
    most_95: int
    most_99: int
    longest: int
    over: int

    @classmethod
    def of(cls, counts: Counter[int], limit: float) -> "Lengths":
        total = max(1, counts.total())
        mean = sum(length * count for length, count in counts.items()) / total
        over = sum(count for length, count in counts.items() if length > limit)
        most_95, most_99 = middle(counts, 0.95), middle(counts, 0.99)
        return cls(round(mean, 1), middle(counts), most_95, most_99, max(counts, default=0), over)


@dataclass
class Report:
    """What was found in a corpus.

    files          files of pairs; two that go together count as one
    rows           rows that were read, of every kind
    pairs          pairs that can be used
    looked_for     names of all that was looked for, found or not
    judges_sides   whether the sides were different enough for languages to be told apart
    """

    files: int
    looked_for: tuple[str, ...]
    most_examples: int
    rows: int = 0
    pairs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)
    source: Lengths | None = None
    target: Lengths | None = None
    pieces: str = ""
    limits: dict[str, float] = field(default_factory=dict)
    judges_sides: bool = True

    def add(self, all_judged: Iterable[Judged]) -> None:
        for judged in all_judged:
            self.rows += 1
            self.pairs += judged.place.row.pair is not None and all(judged.place.row.pair)
            for name in judged.findings:
                self.counts[name] += 1
                shown = self.examples.setdefault(name, [])
                if len(shown) < self.most_examples:
                    shown.append(example(judged.place))

    def meaning(self, name: str) -> str:
        if name in UNUSABLE:
            return f"{UNUSABLE[name]}: left out of training"
        return FINDINGS[name].meaning.format(limit=self.limits.get(name, 0))

    @property
    def found(self) -> list[str]:
        return [name for name in (*UNUSABLE, *FINDINGS) if self.counts[name]]

    @property
    def not_found(self) -> list[str]:
        return [name for name in self.looked_for if not self.counts[name]]

    def percent(self, name: str) -> float:
        return 100 * self.counts[name] / self.rows

    def as_object(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "pairs": self.pairs,
            "pieces": self.pieces,
            "lengths": {"source": vars(self.source), "target": vars(self.target)},
            "sides_told_apart": self.judges_sides,
            "findings": {
                name: {
                    "count": self.counts[name],
                    "percent": round(self.percent(name), 4),
                    "meaning": self.meaning(name),
                    "examples": [vars(one) for one in self.examples.get(name, [])],
                }
                for name in (*(name for name in UNUSABLE if self.counts[name]), *self.looked_for)
            },
        }


def example(place: Place) -> Example:
    source, target = place.row.pair or (place.row.text, "")
    return Example(str(place.corpus), place.row.line, source, target)
