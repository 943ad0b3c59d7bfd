"""Classification: which of several labels a text has, or two texts that are read together.

An encoder reads the text, its states are pooled into one vector, and a linear layer turns that into a logit for each
label. The labels are those of the training set. They take the place of the target vocabulary.

B texts · C classes
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.classification.classifier import Classifier
from manyheads.classification.evaluate import check_labels, metrics_of
from manyheads.classification.scores import score_labels
from manyheads.decoding.batching import evaluating
from manyheads.errors import InputError
from manyheads.models.classifier import TextClassifier
from manyheads.recipe import Recipe
from manyheads.tasks.encoder import EncoderRows, EncoderTask, pad_rows
from manyheads.tasks.lines import corpora_of, describe_sets
from manyheads.tasks.losses import wide
from manyheads.tasks.pairs import NO_PAIRS
from manyheads.tasks.task import Sample, Say, Validation
from manyheads.team import ALONE, Team
from manyheads.text.corpus import Corpus, Paths, check_paths
from manyheads.text.labels import Labels, unknown_label
from manyheads.text.parallel import Parallel
from manyheads.text.shards import Rows
from manyheads.text.spool import Spool
from manyheads.text.tokenizer import FIRST, PADDING
from manyheads.text.turns import Numbers
from manyheads.text.vocabulary import Vocabulary, train_tokenizer

__all__ = ["LabelledBatch", "Task", "class_loss"]

SAMPLES = 5
SHOWN = 10
"""Labels whose counts are printed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledBatch(EncoderRows):
    """Texts with their labels.

    labels   ids of the labels; padding where nothing is learnt
    count    texts of the whole batch, even in a part of it
    tokens   of the whole batch
    pairs    indices in the training set of the texts of the whole batch
    """

    smaller: ClassVar[str] = "data.max_length cuts the longest"

    labels: Int[Tensor, " B"]
    count: int = 1
    tokens: int = 0
    pairs: Numbers = NO_PAIRS

    def split(self, parts: int) -> list["LabelledBatch"]:
        return [self.with_tensors(rows) for rows in zip(*(t.chunk(parts) for t in self.tensors()), strict=True)]

    def halves(self) -> list["LabelledBatch"]:
        return self.split(2)


def class_loss(logits: Float[Tensor, "B C"], labels: Int[Tensor, " B"], smoothing: float) -> Float[Tensor, ""]:
    """Cross-entropy, summed over texts, with `smoothing` of the probability spread over the classes."""
    return F.cross_entropy(
        wide(logits), labels - FIRST, ignore_index=PADDING - FIRST, label_smoothing=smoothing, reduction="sum"
    )


class Task(EncoderTask):
    """Learns from texts with labels, and is scored on others.

    A text takes the place of a pair's source, its label that of the target.
    """

    labelled: ClassVar[bool] = True

    @classmethod
    def prepare(
        cls, recipe: Recipe, folder: Path, data: Mapping[str, Paths | None], files: Mapping[str, bytes], say: Say, changed: bool = False
    ) -> Self:  # fmt: skip
        task = super().prepare(recipe, folder, data, files, say, changed)
        reading, labels = cls.reading(recipe), task.vocabulary.labels
        check_labels(task.held_out["dev"], corpora_of(data, reading)["dev"] or (), labels)
        if old := data.get("old"):
            task.check_old(check_paths(old, "--old-dev", reading), say)
        return task

    def check_old(self, corpora: Sequence[Corpus], say: Say) -> None:
        """Drop the old development set if it has labels that the classifier does not know."""
        try:
            check_labels(self.held_out["old"], corpora, self.vocabulary.labels)
        except InputError as error:
            del self.held_out["old"]
            say(f"the old development set is not scored: {error.message}")

    def build(self) -> TextClassifier:
        sizes = self.vocabulary.source.size, len(self.vocabulary.labels.names)
        return TextClassifier(self.recipe.encoder, *sizes, self.recipe.embed.pooling)

    def pad(self, sources: Rows, targets: Rows) -> LabelledBatch:
        rows = self.framed(sources)
        ids, lengths = pad_rows(rows)
        kinds = [self.frame.kinds(row) for row in rows] if self.recipe.encoder.segments > 1 else []
        segments = pad_rows(kinds)[0] if any(map(any, kinds)) else None
        labels = torch.from_numpy(targets.padded()[:, 0])
        return LabelledBatch(ids=ids, lengths=lengths, segments=segments, labels=labels)

    def share_of(self, rows: Numbers, step: int, team: Team) -> LabelledBatch:
        tokens = int(self.sources.lengths[rows].sum()) + self.around * len(rows)
        return replace(super().share_of(rows, step, team), tokens=tokens)

    def count(self, sources: Rows, targets: Rows) -> int:
        return len(sources.lengths)

    @classmethod
    def learn_vocabulary(cls, recipe: Recipe, spool: Spool) -> Vocabulary:
        texts = (text for line in spool.sources() for text in line.split("\t"))
        return Vocabulary(
            train_tokenizer(recipe.data.tokenizer, texts, recipe.data.vocabulary), Labels.learn(spool.all_targets())
        )

    @classmethod
    def keep_vocabulary(cls, known: Vocabulary, spool: Spool, begun: bool) -> Vocabulary:
        """The vocabulary of a base or a resumed run, with labels.

        A fine-tuned classifier that knows all labels of the data keeps its own. Otherwise it takes those of the data,
        as any other encoder does; a run that has already begun cannot.
        """
        if not isinstance(known.target, Labels):
            return Vocabulary(known.source, Labels.learn(spool.all_targets()))
        if known.labels.numbers.keys() >= set(spool.all_targets()):
            return known
        if begun:
            raise first_unknown(spool, known.labels)
        return Vocabulary(known.source, Labels.learn(spool.all_targets()))

    @classmethod
    def describe(cls, data: Parallel, vocabulary: Vocabulary, recipe: Recipe, say: Say) -> None:
        describe_sets(data, "text", f"{int(data.sources.lengths.sum()):,} pieces", say)
        say(f"vocabulary: {vocabulary.source.size:,} pieces; labels: {counted(data, vocabulary.labels)}")

    def loss(self, model: nn.Module, batch: LabelledBatch) -> Float[Tensor, ""]:
        return class_loss(model(*batch.inputs), batch.labels, self.recipe.train.smoothing)

    def validate(self, model: nn.Module, *, final: bool = False, on: str = "dev", team: Team = ALONE) -> Validation:
        """Score a model. The best is the one with the highest macro F1.

        If classes are uneven, the most accurate model may know only the frequent ones.
        """
        labels, pairs = self.vocabulary.labels, self.held_out[on]
        with evaluating(model):
            classifier = Classifier(model, self.vocabulary, self.recipe.embed)  # type: ignore[arg-type]
            share = team.share(pairs)
            told = zip(share, classifier.classify(text for text, _ in share), strict=True)
            found = team.joined(
                [(one.number, -float(one.log_probabilities[labels.number(label)])) for (_, label), one in told]
            )
        scores = score_labels([labels.number(label) for _, label in pairs], [n for n, _ in found], labels.names)
        shown = zip(pairs[:SAMPLES], found, strict=False)
        samples = [Sample(*pair, "" if n is None else labels.names[n]) for pair, (n, _) in shown]
        return Validation(scores.macro_f1, metrics_of(scores, [loss for _, loss in found]), samples)


def first_unknown(spool: Spool, labels: Labels) -> InputError:
    (corpus, line), label = next((place, to) for place, (_, to) in spool.pairs() if to not in labels.numbers)
    return unknown_label(label, labels, f", {spool.corpora[corpus]}, line {line}")


def counted(data: Parallel, labels: Labels) -> str:
    """How many texts have each label, in words, the most frequent first."""
    counts = np.bincount(data.targets.ids, minlength=labels.size)[FIRST:]
    order = np.argsort(-counts, kind="stable")
    shown = ", ".join(f"{labels.names[n]} {counts[n]:,}" for n in order[:SHOWN])
    rare = f", … {labels.names[order[-1]]} {counts[order[-1]]:,}" if len(order) > SHOWN else ""
    return f"{len(order):,} ({shown}{rare})"
