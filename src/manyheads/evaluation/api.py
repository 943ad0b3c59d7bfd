"""`manyheads.evaluate` and `manyheads.score`: a model on pairs of lines."""

import time
from collections.abc import Iterator
from pathlib import Path

from manyheads.decoding.every_pair import of_every_pair
from manyheads.decoding.loading import translator_of
from manyheads.decoding.translation import ForcedScore
from manyheads.decoding.translator import Translator
from manyheads.evaluation.rates import mean_loss, perplexity
from manyheads.evaluation.scores import Scores, score_outputs
from manyheads.text.corpus import Counts, Paths, check_paths
from manyheads.text.parallel import read_dev

__all__ = ["evaluate", "score"]


def evaluate(
    model: str | Path | Translator, data: Paths, *, device: str = "auto", precision: str = "fp32", **options: float
) -> Scores:
    """Translate the sources of `data` (files as `train` takes them) and score the results against the targets.

    Options are those of `Search`: beam, length_penalty, … So that figures do not depend on the device, they are of full
    precision unless `precision` says otherwise. (A Translator has a precision of its own.)
    """
    translator = translator_of(model, device, precision)
    counts = Counts()
    pairs = read_dev(check_paths(data, "--data", translator.recipe.data.reading), counts)
    began = time.monotonic()
    found = translator.translate_distinct([source for source, _ in pairs], translator.search(**options))
    seconds = time.monotonic() - began
    outputs, symbols = [one.text for one in found], translator.vocabulary.target.kind == "symbols"
    scores = score_outputs(pairs, outputs, symbols=symbols)
    scores.not_finite = sum(not one.finite for one in found)
    scores.seconds, scores.left_out, scores.precision = seconds, counts.left_out, translator.precision
    scores.perplexity = perplexity(mean_loss(translator.score(pairs)))
    return scores


NO_SCORE = ForcedScore(float("nan"), 0, truncated=True)


def score(model: str | Path | Translator, data: Paths, *, device: str = "auto") -> Iterator[ForcedScore]:
    """log P(target | source) of every pair of `data`, in order; a blank target is as likely as an end at the start."""
    translator = translator_of(model, device, "fp32")
    yield from of_every_pair(translator, data, translator.score, NO_SCORE)
