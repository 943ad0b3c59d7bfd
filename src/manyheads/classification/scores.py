"""How good labels are: accuracy, and precision, recall and F1 of each class.

    F1 = 2 · right / (told + there)           told: how often the class was named · there: how often it was true

Macro F1 is the mean over the classes that were true or named at least once, as in scikit-learn. All classes count
alike, however rare: a classifier that always names the most frequent class is accurate where classes are uneven, but
has a low F1.

N texts · C classes
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

__all__ = ["ClassScore", "LabelScores", "score_labels"]


@dataclass(frozen=True)
class ClassScore:
    """In percent, except for `count`: the number of texts of the class."""

    count: int
    precision: float
    recall: float
    f1: float

    def as_object(self) -> dict[str, Any]:
        rates = {name: round(getattr(self, name), 4) for name in ("precision", "recall", "f1")}
        return {"count": self.count, **rates}


@dataclass(frozen=True)
class LabelScores:
    """In percent. `classes` holds all classes that were true or named, by name."""

    accuracy: float
    macro_f1: float
    classes: dict[str, ClassScore]


def score_labels(truth: Sequence[int], found: Sequence[int | None], names: Sequence[str]) -> LabelScores:
    """Score the numbers of the classes that are true and of those that were found, text by text.

    None stands where no class could be told, which is never right.
    """
    numbers = np.array([len(names) if one is None else one for one in found], np.int64)
    table = confusion(np.asarray(truth), numbers, len(names))
    right, told, there = table.diagonal(), table.sum(0), table.sum(1)
    classes = {
        names[n]: ClassScore(
            int(there[n]), percent(right[n], told[n]), percent(right[n], there[n]), percent(2 * right[n], told[n] + there[n])
        )
        for n in range(len(names))
        if told[n] + there[n]
    }  # fmt: skip
    macro = sum(one.f1 for one in classes.values()) / max(1, len(classes))
    return LabelScores(percent(right.sum(), table.sum()), macro, classes)


def confusion(truth: Int[np.ndarray, " N"], found: Int[np.ndarray, " N"], classes: int) -> Int[np.ndarray, "C found"]:
    """Texts by their true class (row) and the class found (column); the last column is for no class."""
    width = classes + 1
    return np.bincount(truth.astype(np.int64) * width + found, minlength=classes * width).reshape(classes, width)


def percent(part: float, whole: float) -> float:
    return 100 * float(part) / float(whole) if whole else 0.0
