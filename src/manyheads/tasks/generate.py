"""A language model: it reads a text up to a token and predicts the next one.

Each line of a file is a text. It starts with a special token and ends with one, so that a model learns how texts start
and where they end.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.decoding.batching import evaluating
from manyheads.errors import OptionError
from manyheads.evaluation.rates import mean_loss, perplexity
from manyheads.generation.scoring import TextScore, bits_per_byte
from manyheads.generation.writer import Writer
from manyheads.models.language_model import LanguageModel
from manyheads.recipe import Recipe
from manyheads.tasks.consistency import OF_TEXTS, FusedPairLoss, choose_loss
from manyheads.tasks.lines import TextTask
from manyheads.tasks.task import Sample, Validation
from manyheads.tasks.texts import PackedTexts, TextBatch, count_tokens, pack_texts, pad_texts
from manyheads.team import ALONE, Team
from manyheads.text.packs import Room
from manyheads.text.shards import Rows

__all__ = ["Task"]

SAMPLES = 5
SAMPLED = 40
"""Tokens that the model writes for a sample."""


class Task(TextTask):
    """Learns from texts, and is scored on others. They take the place of a pair's source."""

    def __init__(self, recipe: Recipe, *data: Any) -> None:
        super().__init__(recipe, *data)
        self.summed_loss = choose_loss(recipe.train)

    def build(self) -> LanguageModel:
        return LanguageModel(self.recipe.language_model, self.vocabulary.source.size)

    @property
    def packs_well(self) -> bool:
        return self.recipe.language_model.packs_well

    def pad(self, sources: Rows, targets: Rows) -> TextBatch:
        return pad_texts(sources)

    def pack(self, sources: Rows, targets: Rows, room: Room, longest: int) -> PackedTexts:
        return pack_texts(sources, room, longest)

    def count(self, sources: Rows, targets: Rows) -> int:
        return count_tokens(sources)

    def loss(self, model: nn.Module, batch: TextBatch | PackedTexts) -> Float[Tensor, ""]:
        return self.summed_loss(model, batch)

    def fused_loss(self) -> FusedPairLoss:
        return self.summed_loss.fused(OF_TEXTS)

    def validate(self, model: nn.Module, *, final: bool = False, on: str = "dev", team: Team = ALONE) -> Validation:
        """How surprised a model is by texts that it has not seen, and how it would continue some of them."""
        texts = [text for text, _ in self.held_out[on]]
        with evaluating(model):
            writer = Writer(as_language_model(model), self.vocabulary.source, self.recipe.generate)
            found = team.joined([(s.log_probability, s.tokens, s.bytes) for s in writer.score(team.share(texts))])
            samples = [sample(writer, text) for text in texts[:SAMPLES]] if team.first else []
        scores = [TextScore(*one) for one in found]
        loss = mean_loss(scores)
        metrics = {"loss": loss, "perplexity": perplexity(loss), "bits_per_byte": bits_per_byte(scores)}
        return Validation(-loss, metrics, samples)


def as_language_model(model: nn.Module) -> LanguageModel:
    if not isinstance(model, LanguageModel):
        raise OptionError(f"the model to score must be a language model, got {type(model).__name__}")
    return model


def sample(writer: Writer, text: str) -> Sample:
    """The first half of a text, how it continues, and how the model would continue it."""
    words = text.split(" ")
    begin = " ".join(words[: len(words) // 2])
    while len(writer.read(begin)) >= writer.longest:  # less than half of a text that is too long to be read
        begin = begin[: len(begin) // 2]
    rest = text.removeprefix(begin)
    return Sample(begin, rest.strip(), writer(begin, tokens=SAMPLED, temperature=0).strip())
