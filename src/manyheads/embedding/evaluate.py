"""Evaluate an encoder on pairs of texts that mean the same."""

import time
from typing import Any

from manyheads.embedding.embedder import Embedder
from manyheads.embedding.once import EmbeddedOnce
from manyheads.embedding.retrieval import partner_ranks, retrieval_metrics
from manyheads.machine import precision_of
from manyheads.text.corpus import Counts, Paths, ReadOptions, check_paths
from manyheads.text.parallel import read_dev

__all__ = ["evaluate_pairs"]


def evaluate_pairs(embedder: Embedder, data: Paths, reading: ReadOptions) -> dict[str, Any]:
    """How well each text of a file of pairs finds its partner among all partners."""
    counts, began = Counts(), time.monotonic()
    pairs = read_dev(check_paths(data, "--data", reading), counts)
    vectors = EmbeddedOnce((text for pair in pairs for text in pair), embedder)
    both = [[vectors.found[text] for text in pair] for pair in pairs]
    return {
        **retrieval_metrics(partner_ranks(pairs, vectors)),
        "lines": len(pairs),
        "left_out": counts.left_out,
        "truncated": sum(any(one.truncated for one in pair) for pair in both),
        "not_finite": sum(not all(one.finite for one in pair) for pair in both),
        "precision": precision_of(embedder.model.words.weight.dtype),
        "seconds": time.monotonic() - began,
    }
