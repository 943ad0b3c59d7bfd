"""Translation by a model that writes all tokens at once. It learns from the same pairs, but reads no previous tokens:

    mask, end    some places of the target, a random number, are masked, and it predicts what they are
    graph        nothing of the target is known; its words may be on any path through the graph

B pairs · S source tokens · T places, or target tokens · L vertices · W words
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.decoding.parallel_translator import ParallelTranslator
from manyheads.decoding.translator import Translator
from manyheads.models.parallel import Glance, ParallelTransformer, as_difference, lengths_of
from manyheads.nn import Layout, Padded
from manyheads.nn.paths import best_path, log_likelihood
from manyheads.nn.vocabulary_loss import vocabulary_loss, vocabulary_loss_applies
from manyheads.nn.words_at import are_best, words_at
from manyheads.recipe import Recipe
from manyheads.tasks import translate
from manyheads.tasks.consistency import PairLoss
from manyheads.tasks.losses import log_probabilities
from manyheads.tasks.pairs import Inputs, PackedPairs, PairBatch, Pairs, pack_pairs
from manyheads.tasks.translate import VALIDATION_BATCH
from manyheads.team import ALONE, Team
from manyheads.text.packs import Room
from manyheads.text.places import asked_for, filled_up, hide_places, read_there
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import END, PADDING
from manyheads.text.turns import Numbers

__all__ = ["GraphLoss", "PlacesBatch", "PlacesLoss", "Task"]

FORGONE = 0.8
"""The share of a glance that is given up by the end of training."""

LENGTH_WEIGHT = 0.1
"""The weight of a wrong length, relative to a wrong word."""


class Task(translate.Task):
    """Learns from pairs, and is scored on others."""

    def __init__(self, recipe: Recipe, *data: Any) -> None:
        super().__init__(recipe, *data)
        self.mask = self.vocabulary.target.size
        graph = recipe.parallel.writes == "graph"
        self.judge_batch = GraphLoss() if graph else PlacesLoss(self.summed_loss)

    def build(self) -> ParallelTransformer:
        return ParallelTransformer(self.recipe.parallel, self.vocabulary.sizes)

    @property
    def packs_well(self) -> bool:
        return self.recipe.parallel.packs_well and self.recipe.parallel.writes != "graph"

    @property
    def has_few_shapes(self) -> bool:  # type: ignore[override]
        """True for a graph: its links are a square matrix per sentence, for which a pack has no room.

        Not with learned positions: a batch that is rounded up might be wider than these reach.
        """
        return self.recipe.parallel.writes == "graph" and self.recipe.parallel.positions != "learned"

    def lengths(self) -> tuple[Numbers, Numbers]:
        sources = self.sources.lengths + 1
        return sources, self.places(sources, self.targets.lengths)

    def places(self, sources: Numbers, targets: Numbers) -> Numbers:
        """Places that pairs take, by their lengths (ParallelConfig.places_for, for many at once)."""
        model = self.recipe.parallel
        if model.writes == "mask":
            return np.maximum(targets, 1)
        free = np.ceil(sources * model.places).astype(targets.dtype)
        return np.maximum(free, targets) + (2 if model.writes == "graph" else 1)

    def rows(
        self, rows: Numbers, epoch: int, source_room: int | None = None, target_room: int | None = None
    ) -> tuple[Rows, Rows]:
        """Sources, and places of the targets, some of them hidden (text/places.py)."""
        sources, targets = super().rows(rows, epoch, source_room, target_room)
        match self.recipe.parallel.writes:
            case "graph":
                return sources, targets
            case "end":
                targets = filled_up(targets, self.places(sources.lengths + 1, targets.lengths))
        return sources, hide_places(targets, rows, epoch, self.recipe.train.seed, self.mask)

    def batch(self, step: int, team: Team = ALONE) -> Any:
        batch = super().batch(step, team)
        if not self.recipe.train.glance:
            return batch
        return replace(batch, glance=torch.full((len(batch.source),), self.glance_at(step)))

    def glance_at(self, step: int) -> float:
        """The glance at a step. It falls linearly, to a fifth by the end, because in use a model is shown nothing."""
        train = self.recipe.train
        return train.glance * (1 - FORGONE * min(1.0, step / train.steps_for(self.batches_per_epoch)))

    def pad(self, sources: Rows, targets: Rows) -> PairBatch:
        ids = targets.padded()
        if self.recipe.parallel.writes == "graph":
            vertices = self.places(sources.lengths + 1, targets.lengths)
            read = np.where(np.arange(vertices.max(initial=1)) < vertices[:, None], self.mask, PADDING)
            asked = ids
        else:
            read, asked = self.told_apart(ids)
        both = sources.padded(after=END), read, asked
        return PlacesBatch(*map(torch.from_numpy, both), count=int(np.count_nonzero(asked)))

    def pack(self, sources: Rows, targets: Rows, room: Room, longest: int) -> PackedPairs:
        packed = pack_pairs(sources, targets, room, longest, framed=False)
        read, asked = map(torch.from_numpy, self.told_apart(packed.labels.numpy()))
        return replace(packed, target=read, labels=asked)

    def told_apart(self, ids: Numbers) -> tuple[Numbers, Numbers]:
        """(what is read in places, what is to be predicted there)"""
        return read_there(ids, self.mask), asked_for(ids, self.mask)

    @property
    def longest(self) -> int:
        longest = np.array([self.recipe.data.max_length])
        return max(super().longest, int(self.places(longest + 1, longest)[0]))

    def count(self, sources: Rows, targets: Rows) -> int:
        if self.recipe.parallel.writes == "graph":
            return int(targets.lengths.sum())
        return int((targets.ids >= self.mask).sum())

    def loss(self, model: nn.Module, batch: Any) -> Float[Tensor, ""]:
        return self.judge_batch(model, batch)

    def fused_loss(self) -> Any:
        return self.judge_batch.fused

    def example(self) -> None:
        """None: what a head does while nothing is known yet says little."""
        return

    def settle(self, model: nn.Module) -> Recipe:
        return self.recipe

    def translator(self, model: nn.Module) -> ParallelTranslator:
        return ParallelTranslator(model, self.vocabulary, self.recipe)  # type: ignore[arg-type]

    def search(self, translator: Translator, final: bool) -> Any:
        return translator.search(batch=VALIDATION_BATCH)


@dataclass(frozen=True, eq=False)
class PlacesBatch(PairBatch):
    """Pairs whose target is places.

    target   places, some of them masked
    labels   what the places should say; padding where there is nothing to predict
    glance   for each sentence of a graph, how many words are shown after a first look, as a share of those it got wrong
    """

    glance: Float[Tensor, " B"] | None = None

    @property
    def inputs(self) -> Inputs:
        keep = self.target != PADDING
        return (
            self.source,
            self.target,
            Padded.like(self.source, self.source != PADDING),
            Padded.like(self.target, keep),
        )


@dataclass(frozen=True)
class PlacesLoss:
    """The loss of words in places, and of the number of places."""

    words: PairLoss

    def __call__(self, model: nn.Module, pairs: Pairs) -> Float[Tensor, ""]:
        logits, log_lengths = model(*self.inputs(pairs))
        return self.words.judged(logits, pairs) + self.of_lengths(log_lengths, pairs)

    def fused(self, model: Any, pairs: Pairs) -> Float[Tensor, ""]:
        """The same loss, on a GPU in a few kernels (see FusedPairLoss)."""
        states, log_lengths = model.read(*self.inputs(pairs))
        if vocabulary_loss_applies(states):
            how = self.words.smoothing, self.words.terms, PADDING
            words = vocabulary_loss(states, model.output_words, pairs.labels, *how)
        else:
            words = self.words.judged_from(states, model.output_words, pairs)
        return words + self.of_lengths(log_lengths, pairs)

    @property
    def passes(self) -> int:
        """Passes over the batch: two with R-Drop, otherwise one."""
        return 2 if self.words.terms.q else 1

    def inputs(self, pairs: Pairs) -> Any:
        return (pairs.twice() if self.passes == 2 else pairs).inputs

    def of_lengths(self, log_p: Float[Tensor, "B differences"] | None, pairs: Pairs) -> Float[Tensor, ""] | float:
        """−log P of the targets' lengths, summed. A row with nothing to predict is not a pair, and does not count."""
        if log_p is None:
            return 0.0
        _, _, source, target = pairs.inputs
        lengths = lengths_of(target)
        found = log_p.gather(1, as_difference(lengths, lengths_of(source)).repeat(self.passes)[:, None])[:, 0]
        asked = labels_in(pairs.labels, target).repeat(self.passes) > 0
        return -LENGTH_WEIGHT * found.masked_fill(~asked, 0).sum() / self.passes


def labels_in(labels: Int[Tensor, "*target"], layout: Layout) -> Int[Tensor, " B"]:
    """The number of labels in each sequence."""
    there = labels != PADDING
    if isinstance(layout, Padded):
        return there.sum(1)
    ends = torch.cat([there.new_zeros(1, dtype=torch.long), there.cumsum(0)])
    return ends[layout.offsets[1:].long()] - ends[layout.offsets[:-1].long()]


class GraphLoss:
    """−log P of the targets, over all paths.

    The words that a glance shows (Qian et al. 2021) let a model learn to depend on other words without ever reading all
    of them.
    """

    def __call__(self, model: nn.Module, batch: PlacesBatch) -> Float[Tensor, ""]:
        logits, links = model(*batch.inputs, glance_at(batch))
        return self.judged(words_in(logits, batch.labels), links, batch)

    def fused(self, model: Any, batch: PlacesBatch) -> Float[Tensor, ""]:
        """The same from the model's states: its logits are never held in memory."""
        states, links = model.read(*batch.inputs, glance_at(batch))
        return self.judged(words_at(states, model.output_words, batch.labels), links, batch)

    def judged(
        self, words: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], batch: PlacesBatch
    ) -> Float[Tensor, ""]:
        lengths = lengths_in(batch)
        log_p = log_likelihood(words, links, lengths.clamp(min=1), last_vertex(batch))
        return -log_p.masked_fill(lengths == 0, 0).sum()


def glance_at(batch: PlacesBatch) -> Glance | None:
    return None if batch.glance is None else partial(shown, batch, batch.glance)


def shown(
    batch: PlacesBatch,
    share: Float[Tensor, " B"],
    states: Float[Tensor, "B L D"],
    links: Float[Tensor, "B L L"] | None,
    table: Float[Tensor, "W D"],
) -> Int[Tensor, "B L"]:
    """What the second look reads: some words of the target, on the path that spells it best.

    The words are drawn at random; their number is a share of those that the first look got wrong.
    """
    assert links is not None
    words, there = words_at(states, table, batch.labels), batch.labels != PADDING
    path = best_path(words, links, lengths_in(batch).clamp(min=1), last_vertex(batch))
    on_path = states.gather(1, path[:, :, None].expand(-1, -1, states.shape[-1]))
    wrong = there & ~are_best(on_path, table, batch.labels)
    count = (wrong.sum(1) * share).round()
    draws = torch.rand(path.shape, device=path.device).masked_fill(~there, 2)
    chosen = (draws.argsort(1).argsort(1) < count[:, None]) & there
    # Places that are not chosen write the mask where there is one already: into the first vertex, which says nothing.
    return batch.target.scatter(1, path.masked_fill(~chosen, 0), torch.where(chosen, batch.labels, batch.target[:, :1]))


def lengths_in(batch: PairBatch) -> Int[Tensor, " B"]:
    """The number of words in each target; 0 for a row from which nothing is learnt."""
    return (batch.labels != PADDING).sum(1)


def last_vertex(batch: PairBatch) -> Int[Tensor, " B"]:
    return (batch.target != PADDING).sum(1) - 1


def words_in(logits: Float[Tensor, "B L W"], labels: Int[Tensor, "B T"]) -> Float[Tensor, "B T L"]:
    """log P that each vertex says each word of the target: the same as words_at, from existing logits."""
    log_p = log_probabilities(logits)
    return log_p.gather(2, labels[:, None].expand(-1, logits.shape[1], -1)).mT
