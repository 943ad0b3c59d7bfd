"""Evaluate a language model on texts."""

import time
from typing import Any

from manyheads.evaluation.rates import mean_loss, perplexity
from manyheads.generation.scoring import bits_per_byte
from manyheads.generation.writer import Writer
from manyheads.machine import precision_of
from manyheads.text.corpus import Counts, Paths, check_paths
from manyheads.text.parallel import read_dev

__all__ = ["evaluate_texts"]


def evaluate_texts(writer: Writer, data: Paths) -> dict[str, Any]:
    """For files with one text per line: perplexity per piece, bits per byte, and what was found in the files."""
    counts, began = Counts(), time.monotonic()
    texts = [text for text, _ in read_dev(check_paths(data, "--data", writer.reading), counts)]
    scores = list(writer.score(texts))
    loss = mean_loss(scores)
    return {
        "perplexity": perplexity(loss),
        "bits_per_byte": bits_per_byte(scores),
        "tokens": sum(one.tokens for one in scores),
        "lines": len(scores),
        "left_out": counts.left_out,
        "truncated": sum(one.truncated for one in scores),
        "precision": precision_of(writer.model.words.weight.dtype),
        "seconds": time.monotonic() - began,
    }
