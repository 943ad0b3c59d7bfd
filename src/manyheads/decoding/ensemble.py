"""An ensemble: several models translate as one, by the mean of their probabilities at each step.

They must write the same pieces, in the same order of ids. They may cut the source into different pieces: the first
model's ids are decoded to text (exactly) and encoded again for the others.

B sentences · S source tokens · T target tokens · W words
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.errors import OptionError, brief
from manyheads.models.config import TransformerConfig
from manyheads.models.transformer import Transformer
from manyheads.nn import BeamCache, DecoderCache, Memory, Room
from manyheads.text.tokenizer import END, PADDING, Tokenizer

if TYPE_CHECKING:
    from manyheads.decoding.translator import Translator

__all__ = ["Ensemble", "EnsembleBeams", "EnsembleCache", "ensemble"]


def ensemble(translators: Sequence["Translator"]) -> "Translator":
    """Combine several translators into one.

    How to search, and how to cut lines that are too long, is taken from the recipe of the first.
    """
    for one in translators or [None]:
        if not hasattr(one, "vocabulary"):
            raise OptionError(
                f"an ensemble must be made of Translators, got {brief(one)}", hint="Translator.load(folder) returns one"
            )
    first = translators[0]
    for one in translators:
        if isinstance(one.model, Ensemble):
            raise OptionError("an ensemble must be made of single models, got another ensemble")
        if not one.model.config.causal:
            raise OptionError("models of an ensemble must write token by token, got one that writes all at once")
        if one.judges:
            raise OptionError(
                "models of an ensemble must have no judges, got one that does",
                hint="ensemble([…]).judged_by(…) adds a second opinion to all of them",
            )
        if one.device != first.device:
            raise OptionError(
                f"models of an ensemble must be on the same device, got {first.device} and {one.device}",
                hint='Translator.load(folder, device="…")',
            )
    check_targets([one.vocabulary.target for one in translators])
    models, sources = [one.single for one in translators], [one.vocabulary.source for one in translators]
    check_sources(models, sources)
    return type(first)(Ensemble(models, sources), first.vocabulary, first.recipe)


def check_targets(targets: Sequence[Tokenizer]) -> None:
    first = targets[0].as_json()
    for number, target in enumerate(targets[1:], 2):
        if target.as_json() != first:
            raise OptionError(
                "models of an ensemble must have the same target vocabulary, "
                f"got {target.size:,} pieces in number {number} that differ from the {targets[0].size:,} of the first",
                hint="train them from the same pairs with the same [data], and different seeds",
            )


def check_sources(models: Sequence[Transformer], sources: Sequence[Tokenizer]) -> None:
    """Refuse a model with learned positions whose source vocabulary differs from the first one's.

    A source that fits the first model's table of positions may be too long for another's, if it is cut into other
    pieces.
    """
    first = sources[0].as_json()
    for number, (model, source) in enumerate(zip(models, sources, strict=True), 1):
        if model.config.positions == "learned" and source.as_json() != first:
            raise OptionError(
                "a model with learned positions must have the same source vocabulary as the first model of its ensemble, "
                f"got a different one in number {number}"
            )


class Ensemble(nn.Module):
    """Several models with the interface that a Translator expects of one."""

    def __init__(self, members: Sequence[Transformer], sources: Sequence[Tokenizer]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.sources = list(sources)
        first = sources[0].as_json()
        self.reads_alike = [source.as_json() == first for source in sources]

    @property
    def first(self) -> Transformer:
        return self.members[0]  # type: ignore[return-value]

    @property
    def words(self) -> nn.Embedding:
        return self.first.words

    @property
    def config(self) -> TransformerConfig:
        """The configuration of the member with the shortest table of positions."""
        return min((member.config for member in self.models), key=table_of_positions)

    @property
    def models(self) -> list[Transformer]:
        return list(self.members)  # type: ignore[arg-type]

    @property
    def reads_one(self) -> bool:
        """True if all members read the same ids. Otherwise the host must encode the text again."""
        return all(self.reads_alike)

    def forward(self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, "B T W"]:
        """The log of the mean probability of the token after each target token."""
        memories = self.encode(source)
        return log_mean([model.decode(target, memory) for model, memory in zip(self.models, memories, strict=True)])

    def encode(self, source: Int[Tensor, "B S"]) -> list[Memory]:
        members = zip(self.models, self.sources, self.reads_alike, strict=True)
        return [
            model.encode(source if alike else self.cut_again(source, tokenizer)) for model, tokenizer, alike in members
        ]

    def cut_again(self, source: Int[Tensor, "B S"], tokenizer: Tokenizer) -> Int[Tensor, "B Z"]:
        """The same sentences, encoded as another member reads them."""
        texts = [self.sources[0].decode(ids) for ids in source.tolist()]
        rows = [torch.tensor([*ids, END]) for ids in tokenizer.encode(texts)]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING).to(source.device)

    def start(self, memory: Sequence[Memory]) -> "EnsembleCache":
        return EnsembleCache([model.start(its_own) for model, its_own in zip(self.models, memory, strict=True)])

    def step(self, tokens: Int[Tensor, "B T"], cache: "EnsembleCache") -> Float[Tensor, "B T W"]:
        return log_mean([model.step(tokens, one) for model, one in zip(self.models, cache.caches, strict=True)])

    def start_beams(self, room: Room) -> "EnsembleBeams":
        return EnsembleBeams([model.start_beams(room) for model in self.models])

    def step_beams(self, tokens: Int[Tensor, "B k"], cache: "EnsembleBeams", steps: int) -> Float[Tensor, "B k W"]:
        members = zip(self.models, cache.caches, strict=True)
        return log_mean([model.step_beams(tokens, one, steps) for model, one in members])


class EnsembleCache:
    """The decoder cache of each member."""

    def __init__(self, caches: Sequence[DecoderCache]) -> None:
        self.caches = caches

    def share(self, readers: int) -> None:
        for cache in self.caches:
            cache.share(readers)

    def select(self, rows: Int[Tensor, " C"]) -> None:
        for cache in self.caches:
            cache.select(rows)

    def reorder(self, rows: Int[Tensor, " B"]) -> None:
        for cache in self.caches:
            cache.reorder(rows)


class EnsembleBeams:
    """The beam cache of each member, in rooms of one shape.

    All advance together, from the same beams by the same words.
    """

    def __init__(self, caches: Sequence[BeamCache]) -> None:
        self.caches = caches

    @property
    def room(self) -> Room:
        return self.caches[0].room

    @property
    def step(self) -> Int[Tensor, " 1"]:
        return self.caches[0].step

    @property
    def bytes(self) -> int:
        return sum(cache.bytes for cache in self.caches)

    def begin(self, start: EnsembleCache) -> None:
        for cache, its_own in zip(self.caches, start.caches, strict=True):
            cache.begin(its_own)

    def advance(self, origin: Int[Tensor, "B k"]) -> None:
        for cache in self.caches:
            cache.advance(origin)


def log_mean(logits: Sequence[Float[Tensor, "B T W"]]) -> Float[Tensor, "B T W"]:
    """The log of the mean of the distributions. It is a distribution already, so log-softmax does not change it."""
    log_p = torch.stack([one.float().log_softmax(-1) for one in logits])
    return log_p.logsumexp(0) - math.log(len(logits))


def table_of_positions(config: TransformerConfig) -> float:
    return config.max_length if config.positions == "learned" else math.inf
