"""The scores of a set of outputs: sacreBLEU's BLEU and chrF with their signatures, and error rates of symbols."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from manyheads.evaluation.rates import error_rate, exact_match, group_references

__all__ = ["Scores", "score_outputs"]


@dataclass
class Scores:
    """BLEU and chrF from sacreBLEU, with signatures; the perplexity of the targets, per piece; and what the task adds.

    left_out     pairs that are blank on one side or too long to be a sentence
    not_finite   lines whose output is blank, or lacks a part, because the model's numbers were not finite
    precision    that the model computed in, if there was one
    exact        percent of outputs that equal their target
    wer          percent of distinct sources whose output equals none of their targets   (targets made of symbols)
    per          percent of wrong symbols, to the nearest target                         (targets made of symbols)
    """

    bleu: float
    chrf: float
    exact: float
    signature: str
    chrf_signature: str
    lines: int
    perplexity: float = float("nan")
    seconds: float = 0.0
    left_out: int = 0
    not_finite: int = 0
    precision: str | None = None
    extra: dict[str, float] = field(default_factory=dict)

    def as_object(self) -> dict[str, Any]:
        numbers = {
            "bleu": self.bleu,
            "chrf": self.chrf,
            "perplexity": self.perplexity,
            "exact": self.exact,
            **self.extra,
        }
        rounded = {name: round(value, 4) for name, value in numbers.items()}
        signatures = {"signature": self.signature, "chrf_signature": self.chrf_signature}
        return {
            **rounded,
            **signatures,
            "lines": self.lines,
            "left_out": self.left_out,
            "not_finite": self.not_finite,
            "precision": self.precision,
            "seconds": round(self.seconds, 3),
        }


def score_outputs(pairs: Sequence[tuple[str, str]], outputs: Sequence[str], *, symbols: bool) -> Scores:
    """Score outputs against the targets of their pairs.

    With `symbols`, a source may occur several times, each time with a target that is right; error rates count it once.
    """
    targets = [target for _, target in pairs]
    bleu, chrf = BLEU(), CHRF()
    scores = Scores(
        bleu=bleu.corpus_score(outputs, [targets]).score,
        chrf=chrf.corpus_score(outputs, [targets]).score,
        exact=exact_match(outputs, [[target] for target in targets]),
        signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        lines=len(pairs),
    )
    if symbols:
        groups = group_references(pairs)
        by_source = dict(zip((source for source, _ in pairs), outputs, strict=True))
        distinct = [by_source[source] for source in groups]
        references = list(groups.values())
        scores.extra = {"wer": 100 - exact_match(distinct, references), "per": error_rate(distinct, references)}
    return scores
