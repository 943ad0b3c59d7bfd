"""Evaluate a classifier on texts whose labels are known."""

import os
import time
from collections.abc import Sequence
from typing import Any

from manyheads.classification.classifier import Classifier
from manyheads.classification.scores import LabelScores, score_labels
from manyheads.machine import precision_of
from manyheads.text.corpus import Corpus, Counts, Pair, Paths, ReadOptions, check_paths, read_pairs
from manyheads.text.labels import Labels, unknown_label
from manyheads.text.parallel import read_dev

__all__ = ["check_labels", "evaluate_labels", "metrics_of"]


def evaluate_labels(classifier: Classifier, data: Paths, reading: ReadOptions) -> dict[str, Any]:
    """For files with labels and texts: how good the classifier is.

    Accuracy, macro F1, the mean loss, and precision, recall and F1 of each class.
    """
    counts, began, labels = Counts(), time.monotonic(), Labels(classifier.names)
    corpora = check_paths(data, "--data", reading)
    pairs = read_dev(corpora, counts)
    check_labels(pairs, corpora, labels)
    truth = [labels.number(label) for _, label in pairs]
    found = list(classifier.classify(text for text, _ in pairs))
    scores = score_labels(truth, [one.number for one in found], labels.names)
    losses = [-float(one.log_probabilities[true]) for one, true in zip(found, truth, strict=True)]
    return {
        **metrics_of(scores, losses),
        "classes": {name: one.as_object() for name, one in scores.classes.items()},
        "lines": len(pairs),
        "left_out": counts.left_out,
        "truncated": sum(one.truncated for one in found),
        "not_finite": sum(not one.finite for one in found),
        "precision": precision_of(classifier.model.classes.weight.dtype),
        "seconds": time.monotonic() - began,
    }


def metrics_of(scores: LabelScores, losses: Sequence[float]) -> dict[str, float]:
    return {"loss": sum(losses) / len(losses), "accuracy": scores.accuracy, "macro_f1": scores.macro_f1}


def check_labels(pairs: Sequence[Pair], corpora: Sequence[Corpus], labels: Labels) -> None:
    """Refuse labels that no text of the training set has: they cannot be predicted.

    The error names the line, if the files can be read again.
    """
    strange = next((pair for pair in pairs if pair[1] not in labels.numbers), None)
    if strange is not None:
        raise unknown_label(strange[1], labels, place_of(strange, corpora))


def place_of(wanted: Pair, corpora: Sequence[Corpus]) -> str:
    again = (corpus for corpus in corpora if all(map(os.path.isfile, corpus.paths)))
    places = (
        f", {corpus}, line {line}" for corpus in again for line, pair in read_pairs(corpus, Counts()) if pair == wanted
    )
    return next(places, "")
