"""`manyheads.evaluate` and `manyheads.score`: a model against pairs of lines."""

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from math import exp
from pathlib import Path

from manyheads.decoding.translator import CHUNK, ForcedScore, Translator
from manyheads.evaluation.scores import Scores, score_outputs
from manyheads.text.corpus import Counts, Paths, check_paths, read_every_pair
from manyheads.text.parallel import read_dev

__all__ = ["evaluate", "score"]


def evaluate(model: str | Path | Translator, data: Paths, *, device: str = "auto", **options: float) -> Scores:
    """Translate the sources of `data` (one TSV file, or two files) and score them against the targets.

    Options are those of `Search`: beam, length_penalty, …
    """
    translator = model if isinstance(model, Translator) else Translator.load(model, device)
    counts = Counts()
    pairs = read_dev(check_paths(data, "--data"), counts)
    began = time.monotonic()
    distinct = list(dict.fromkeys(source for source, _ in pairs))  # several references, one translation
    texts = (line.text for line in translator.translate(distinct, translator.search(**options)))
    outputs = dict(zip(distinct, texts, strict=True))
    seconds = time.monotonic() - began
    scores = score_outputs(
        pairs, [outputs[source] for source, _ in pairs], symbols=translator.vocabulary.target.kind == "symbols"
    )
    scores.seconds, scores.left_out = seconds, counts.blank + counts.too_long
    scores.perplexity = perplexity(translator.score(pairs))
    return scores


def perplexity(scores: Sequence[ForcedScore]) -> float:
    """By piece, the end included."""
    return exp(min(700, -sum(s.log_probability for s in scores) / sum(s.tokens for s in scores)))


NO_SCORE = ForcedScore(float("nan"), 0, truncated=True)
"""Of a pair with a line that is too long to be held in memory."""


def score(model: str | Path | Translator, data: Paths, *, device: str = "auto") -> Iterator[ForcedScore]:
    """log P(target | source) of every pair of `data`, in order; a blank target is as likely as an end at the start."""
    translator = model if isinstance(model, Translator) else Translator.load(model, device)
    pairs = read_every_pair(check_paths(data, "--data"), Counts())
    while block := list(islice(pairs, CHUNK)):
        scores = translator.score([pair or ("", "") for _, pair in block])
        yield from (NO_SCORE if pair is None else one for one, (_, pair) in zip(scores, block, strict=True))
