"""The results of translating a line and of scoring a pair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.links import Link
from manyheads.decoding.repetition import looped
from manyheads.decoding.segments import join_parts

__all__ = ["BLANK", "Alternative", "ForcedScore", "Translation", "as_translation"]


@dataclass(frozen=True)
class Alternative:
    """One translation of a line. Alternatives are ranked by `score`.

    alignment   which source word belongs to which target word, if requested
    """

    text: str
    score: float
    log_probability: float
    alignment: tuple[Link, ...] | None = None


@dataclass(frozen=True)
class Translation:
    """The result of translating a line: `n_best` alternatives, the best first.

    truncated   the limit on its length cut it off
    parts       how many parts the line was cut into, because it was too long for one pass
    looped      it ends with the same few pieces again and again
    unmet       phrases that should be in it and are not, or the other way round
    finite      False if the model is broken, or its numbers were too large for its precision: do not use the result
    """

    n_best: tuple[Alternative, ...]
    truncated: bool = False
    parts: int = 1
    looped: bool = False
    unmet: tuple[str, ...] = ()
    finite: bool = True

    @property
    def text(self) -> str:
        return self.n_best[0].text

    @property
    def score(self) -> float:
        return self.n_best[0].score


BLANK = Translation((Alternative("", 0.0, 0.0),), parts=0)


def as_translation(
    parts: Sequence[Sequence[Hypothesis]], n_best: int, decode: Callable[[Sequence[int]], str]
) -> Translation:
    """Join the hypotheses of the parts of a line into one translation.

    Only a line in one part has several alternatives.
    """
    if not parts:
        return BLANK
    best = [hypotheses[0] for hypotheses in parts]
    found = {
        "truncated": any(not h.finished for h in best if h.finite),
        "looped": any(looped(h.ids) for h in best),
        "finite": all(h.finite for h in best),
    }
    if len(parts) == 1:
        alternatives = (Alternative(decode(h.ids), h.score, h.log_probability) for h in parts[0][:n_best])
        return Translation(tuple(alternatives), **found)
    text = join_parts(decode(h.ids) for h in best)
    whole = Alternative(text, sum(h.score for h in best), sum(h.log_probability for h in best))
    return Translation((whole,), parts=len(parts), **found)


@dataclass(frozen=True)
class ForcedScore:
    """log P(target | source), the end included, over `tokens` pieces.

    truncated   a side is longer than what is scored: the rest of it does not count
    """

    log_probability: float
    tokens: int
    truncated: bool = False
