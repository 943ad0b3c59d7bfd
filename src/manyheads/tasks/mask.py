"""Pre-training of an encoder: words of a text are hidden, and it predicts what they were (masking.py).

Each line of a file is a text. In a batch, the text with words hidden takes the place of a pair's source; the words to
predict take that of the target.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.decoding.batching import evaluating
from manyheads.errors import OptionError
from manyheads.evaluation.masked import MaskedScore, Prober, figures
from manyheads.models.masked_model import MaskedModel
from manyheads.recipe import Recipe
from manyheads.tasks.consistency import OF_TEXTS, FusedPairLoss, choose_loss
from manyheads.tasks.lines import TextTask
from manyheads.tasks.masked import MaskedBatch, PackedMasked, pack_masked, pad_masked
from manyheads.tasks.task import Sample, Validation
from manyheads.team import ALONE, Team
from manyheads.text.batches import BatchPlan
from manyheads.text.masking import Masking, table_size
from manyheads.text.packs import PackPlan, Room, aligned
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import PADDING
from manyheads.text.turns import Numbers
from manyheads.text.vocabulary import Vocabulary

__all__ = ["Task"]

SAMPLES = 5
TRIED = 2_000
"""Texts from which the share of tokens to predict is estimated."""


class Task(TextTask):
    """Learns from texts, and is scored on others."""

    def __init__(self, recipe: Recipe, vocabulary: Vocabulary, *data: Any) -> None:
        self.masking = Masking(vocabulary.source, recipe.mask, recipe.train.seed)
        self.most = 0
        super().__init__(recipe, vocabulary, *data)
        self.summed_loss = choose_loss(recipe.train)

    def build(self) -> MaskedModel:
        return MaskedModel(self.recipe.encoder, table_size(self.vocabulary.source))

    @property
    def packs_well(self) -> bool:
        return self.recipe.encoder.packs_well

    @property
    def around(self) -> int:
        return self.masking.around

    def arrange(self, packs: int) -> BatchPlan | PackPlan:
        plan = super().arrange(packs)
        if isinstance(plan, PackPlan):
            self.most = places_in(plan.room.source, self.share_asked(plan.turns.of(0)[0]))
        return plan

    def share_asked(self, texts: Numbers) -> float:
        """The share of an epoch's tokens to predict.

        It is above the recipe's if texts are short, because at least one word of each is hidden.
        """
        tried = texts[np.linspace(0, len(texts) - 1, min(TRIED, len(texts))).astype(np.int64)]
        read, asked = self.rows(tried, 0)
        return self.count(read, asked) / len(read.ids)

    def rows(
        self, rows: Numbers, epoch: int, source_room: int | None = None, target_room: int | None = None
    ) -> tuple[Rows, Rows]:
        """(tokens to read, tokens to predict). In a pack, predictions for which it has no place are dropped."""
        room = (
            None if source_room is None else source_room - (self.around - 1) * len(rows)
        )  # one per text is already counted
        read, asked = self.masking(self.sources.rows(rows, epoch, room), rows, epoch)
        if source_room is not None:
            asked.ids[np.flatnonzero(asked.ids)[self.most :]] = PADDING
        return read, asked

    def pad(self, sources: Rows, targets: Rows) -> MaskedBatch:
        return pad_masked(sources, targets)

    def silence(self, batch: MaskedBatch, first: int) -> None:
        batch.labels[batch.places >= first * batch.ids.shape[1]] = PADDING

    def pack(self, sources: Rows, targets: Rows, room: Room, longest: int) -> PackedMasked:
        return pack_masked(sources, targets, room, longest, self.most)

    def count(self, sources: Rows, targets: Rows) -> int:
        return int(np.count_nonzero(targets.ids))

    def loss(self, model: nn.Module, batch: MaskedBatch | PackedMasked) -> Float[Tensor, ""]:
        return self.summed_loss(model, batch)

    def fused_loss(self) -> FusedPairLoss:
        return self.summed_loss.fused(replace(OF_TEXTS, biased=True))

    def validate(self, model: nn.Module, *, final: bool = False, on: str = "dev", team: Team = ALONE) -> Validation:
        """How well a model predicts the hidden words of texts it has not seen: the same words each time."""
        texts = [text for text, _ in self.held_out[on]]
        with evaluating(model):
            prober = Prober(as_masked_model(model), self.vocabulary.source, self.recipe.mask)
            found = team.joined([(s.log_probability, s.tokens, s.right) for s in prober.score(team.share(texts))])
            samples = [Sample(*prober.sample(text)) for text in texts[:SAMPLES]] if team.first else []
        metrics = figures([MaskedScore(*one) for one in found])
        return Validation(-metrics["loss"], metrics, samples)


def as_masked_model(model: nn.Module) -> MaskedModel:
    if not isinstance(model, MaskedModel):
        raise OptionError(f"the model to score must be a masked language model, got {type(model).__name__}")
    return model


def places_in(tokens: int, share: float) -> int:
    """Places for predictions in a pack of `tokens`. One pack in many millions needs more, and does without those."""
    mean = share * tokens
    return min(tokens, aligned(1.1 * mean + 4 * mean**0.5))
