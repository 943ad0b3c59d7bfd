"""What becomes of a line, and of a pair that is only scored."""

from dataclasses import dataclass

from manyheads.decoding.links import Link

__all__ = ["BLANK", "Alternative", "ForcedScore", "Translation"]


@dataclass(frozen=True)
class Alternative:
    """One way to translate a line. `score` is what alternatives are ranked by.

    alignment   which source word belongs to which target word, if that was asked for
    """

    text: str
    score: float
    log_probability: float
    alignment: tuple[Link, ...] | None = None


@dataclass(frozen=True)
class Translation:
    """What became of a line: `n_best` alternatives, the best first.

    truncated   the bound on the length cut it off
    parts       how many the line was cut into, because it was too long for one pass
    looped      it ends with the same few pieces again and again
    unmet       phrases that should be in it and are not, or the other way round
    finite      False if the model's numbers were too large for its precision, or it is broken: what there is, is not to be used
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


@dataclass(frozen=True)
class ForcedScore:
    """log P(target | source), the end included, over `tokens` pieces.

    truncated   a side is longer than the model's table of learned positions: what is beyond does not count
    """

    log_probability: float
    tokens: int
    truncated: bool = False
