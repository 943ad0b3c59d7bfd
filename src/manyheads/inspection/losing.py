"""What is lost without a head: the score with all heads minus the score without that one. Above 0, the head helps.

log_probability   of the pairs' targets, in nats per piece (ends count as pieces); error is its standard error
bleu, chrf        of the translations, all found by the same search
bleu_p, chrf_p    of paired bootstrap resampling: how often chance alone would make as large a difference. None for few
                  pairs, from which it would claim too much
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from manyheads.decoding.forced import score_ids
from manyheads.decoding.options import Search
from manyheads.decoding.translator import Translator
from manyheads.evaluation.compare import FEWEST, Figure, paired_test
from manyheads.inspection.switches import Head, switched_off
from manyheads.text.corpus import Pair
from manyheads.text.tokenizer import END

__all__ = ["Losses", "Lost", "Without", "losses", "without"]


@dataclass(frozen=True)
class Lost:
    log_probability: float
    log_probability_error: float | None
    bleu: float
    bleu_p: float | None
    chrf: float
    chrf_p: float | None


@dataclass(frozen=True)
class Losses:
    """The scores with all heads, how they were computed, and what each head is worth."""

    bleu: float
    chrf: float
    signatures: dict[str, str]
    heads: dict[Head, Lost]


@dataclass(frozen=True)
class Without:
    """What a model does without some heads, pair by pair: log P of targets, their piece counts, and translations."""

    log_probabilities: list[float]
    pieces: list[int]
    outputs: list[str]


def without(translator: Translator, pairs: Sequence[Pair], search: Search, off: Sequence[Head]) -> Without:
    sources, targets = translator.encode_pairs(pairs)
    with switched_off(translator.single, off):
        ended = [[*ids, END] for ids in targets]
        scores = score_ids(translator.single, sources, ended, translator.longest_scored, batch=64)
        found = translator.translate_distinct([source for source, _ in pairs], search)
    values = [one.log_probability for one in scores], [one.tokens for one in scores]
    return Without(*values, [one.text for one in found])


def log_probability_lost(whole: Without, gone: Without) -> tuple[float, float | None]:
    """The loss per piece and its standard error, as a ratio of two sums over pairs. A single pair has no error."""
    lost, pieces = np.subtract(whole.log_probabilities, gone.log_probabilities), np.array(whole.pieces)
    mean, count = lost.sum() / pieces.sum(), len(pieces)
    if count == 1:
        return float(mean), None
    error = np.sqrt(((lost - mean * pieces) ** 2).sum() * count / (count - 1)) / pieces.sum()
    return float(mean), float(error)


def losses(pairs: Sequence[Pair], whole: Without, gone: Mapping[Head, Without]) -> Losses:
    """For each head, what is lost without it."""
    outputs = {"": whole.outputs} | {str(head): one.outputs for head, one in gone.items()}
    references = [[target for _, target in pairs]]
    tested = paired_test("bootstrap", outputs, {"bleu": BLEU(), "chrf": CHRF()}, references)
    (bleu, bleu_how), (chrf, chrf_how) = tested["bleu"], tested["chrf"]
    told = len(pairs) >= FEWEST
    lost = {
        head: Lost(*log_probability_lost(whole, one), *less(bleu[0], bleu[n], told), *less(chrf[0], chrf[n], told))
        for n, (head, one) in enumerate(gone.items(), 1)
    }
    return Losses(bleu[0].score, chrf[0].score, {"bleu": bleu_how, "chrf": chrf_how}, lost)


def less(whole: Figure, one: Figure, told: bool) -> tuple[float, float | None]:
    """How much lower a score is, and its p if there are enough pairs for one."""
    return round(whole.score - one.score, 4), one.p if told else None
