"""`Classifier`: texts to labels.

    classifier = Classifier.load("runs/mood")
    classifier("What a lovely day.")                                       "glad"
    classifier(["What a lovely day.", "Oh no."])                           ["glad", "sad"]
    next(classifier.classify(["What a lovely day."])).ranked()             [("glad", 0.98), ("sad", 0.02)]

A text with a tab in it is two texts, which are read one after the other.

C classes · B texts computed together
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.decoding.batching import CHUNK, CHUNK_CHARACTERS, blocks, pad
from manyheads.decoding.rounding import load_rounded
from manyheads.embedding.reading import batches_of_rows, lay_out
from manyheads.errors import OptionError, brief
from manyheads.modelfolder import load_classifier
from manyheads.models.classifier import TextClassifier
from manyheads.settings import EmbedConfig
from manyheads.text.joined import Frame, join_texts
from manyheads.text.vocabulary import Vocabulary

__all__ = ["Classified", "Classifier"]


@dataclass(frozen=True, eq=False)
class Classified:
    """A text and the probabilities of its classes.

    text                the text that was read
    names               of all classes
    log_probabilities   of each; NaN if the text is blank, or its numbers are not finite
    tokens              how many were read
    truncated           there were more
    """

    text: str
    names: Sequence[str]
    log_probabilities: Float[np.ndarray, " C"]
    tokens: int
    truncated: bool = False

    @property
    def finite(self) -> bool:
        return not np.isnan(self.log_probabilities).any()

    @property
    def blank(self) -> bool:
        return is_blank(self.text)

    @property
    def number(self) -> int | None:
        """The number of the likeliest class; None if none can be told."""
        return int(self.log_probabilities.argmax()) if self.finite else None

    @property
    def label(self) -> str:
        """The label of the likeliest class; "" if none can be told."""
        return "" if self.number is None else self.names[self.number]

    def ranked(self, most: int | None = None) -> list[tuple[str, float]]:
        """(label, probability), the likeliest first; empty if none can be told."""
        order = np.argsort(-self.log_probabilities, kind="stable")[:most] if self.finite else []
        return [(self.names[n], float(np.exp(self.log_probabilities[n]))) for n in order]


class Classifier:
    """A model that was trained to predict labels, with its tokenizer."""

    def __init__(self, model: TextClassifier, vocabulary: Vocabulary, config: EmbedConfig) -> None:
        self.model, self.tokenizer, self.config = model.eval(), vocabulary.source, config
        self.names = vocabulary.labels.names
        self.frame = Frame.of(self.tokenizer, config.max_length)
        self.tells_texts_apart = model.config.segments > 1

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", precision: str = "auto") -> "Classifier":
        """Load a run folder.

        precision   "fp32", "bf16", "fp16" or, on a CPU, "int8" ("auto": fp16 on a GPU, fp32 elsewhere)
        """
        model, vocabulary, recipe = load_rounded(load_classifier, folder, device, precision)
        return cls(model, vocabulary, recipe.embed)

    def __call__(self, texts: str | Sequence[str]) -> str | list[str]:
        """A list with a label for each text; for a single text, its label alone."""
        if isinstance(texts, str):
            return next(self.classify([texts])).label
        if not isinstance(texts, Iterable) or isinstance(texts, bytes):
            raise OptionError(f"a classifier takes a text or a list of texts, got {brief(texts)}")
        return [one.label for one in self.classify(texts)]

    @property
    def device(self) -> torch.device:
        return self.model.classes.weight.device

    def classify(self, texts: Iterable[str]) -> Iterator[Classified]:
        """Yield the results in the order of the texts, some thousands of which are held at a time."""
        for block in blocks(texts, CHUNK, CHUNK_CHARACTERS):
            yield from self.classify_block(block)

    def classify_block(self, texts: list[str]) -> list[Classified]:
        pieces = join_texts(self.tokenizer, texts)
        rows = [[] if is_blank(text) else self.frame.around(ids) for text, ids in zip(texts, pieces, strict=True)]
        found = np.full((len(rows), len(self.names)), np.nan, np.float32)
        for numbers in batches_of_rows(rows, self.device):
            found[numbers] = self.log_probabilities([rows[n] for n in numbers]).cpu().numpy()
        return [
            Classified(text, self.names, one, len(row), len(ids) > self.frame.most)
            for text, one, row, ids in zip(texts, found, rows, pieces, strict=True)
        ]

    @torch.inference_mode()
    def log_probabilities(self, rows: list[list[int]]) -> Float[Tensor, "B C"]:
        ids, layout = lay_out(rows, self.device)
        segments = pad([self.frame.kinds(row) for row in rows]).to(self.device) if self.tells_texts_apart else None
        return self.model(ids, layout, segments).float().log_softmax(-1)


def is_blank(text: str) -> bool:
    """True if there is nothing to read, or only half of a pair."""
    return not all(part.strip() for part in text.split("\t"))
