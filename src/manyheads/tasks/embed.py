"""Similarity: vectors of texts that mean the same should point the same way, and others elsewhere.

It is learnt from pairs of a text and another that says the same. Batches are pairs in random order, of any length: in
batches of one length, texts would never be compared with texts of other lengths, as they are when the model is used.
"""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.decoding.batching import evaluating
from manyheads.embedding.embedder import Embedder
from manyheads.embedding.once import EmbeddedOnce
from manyheads.embedding.retrieval import Embed, partner_ranks, retrieval_metrics, unit
from manyheads.errors import OptionError
from manyheads.models.encoder import TextEncoder
from manyheads.nn.pooling import POOLINGS
from manyheads.recipe import Recipe
from manyheads.tasks.encoder import EncoderTask
from manyheads.tasks.lines import describe_sets
from manyheads.tasks.similarity import SimilarityBatch, in_batch_loss, pair_up, same_texts
from manyheads.tasks.task import Sample, Say, Validation
from manyheads.team import ALONE, Team
from manyheads.text.corpus import Pair
from manyheads.text.packs import PackPlan
from manyheads.text.parallel import Parallel
from manyheads.text.spool import Spool
from manyheads.text.vocabulary import Vocabulary, train_vocabulary

__all__ = ["Task"]

TOKENS = 2_048
"""The most tokens that are computed at once, padding included."""

JUDGED = 256
"""Pairs per batch for the loss on the development set: fixed, so that runs with other batches can be compared."""

SAMPLES = 5


class Task(EncoderTask):
    def __init__(self, recipe: Recipe, *data: Any) -> None:
        super().__init__(recipe, *data)
        self.pool = POOLINGS[recipe.embed.pooling]

    @classmethod
    def check_team(cls, team: Team) -> None:
        if team.size > 1:
            raise OptionError(
                f"each pair of a batch is compared with all others, which needs one process, got {team.size}"
            )

    def build(self) -> TextEncoder:
        return TextEncoder(self.recipe.encoder, self.vocabulary.source.size)

    def arrange(self, packs: int) -> PackPlan:
        """Plan batches of pairs in random order, each of up to `train.tokens` tokens on the longer side."""
        train = self.recipe.train
        self.plan = PackPlan(*self.lengths(), train.tokens, train.seed, self.corpora())
        return self.plan

    def batch(self, step: int, team: Team = ALONE) -> SimilarityBatch:
        assert isinstance(self.plan, PackPlan)
        (rows,) = self.plan.rows(step)
        sources, targets = self.rows(rows, step // self.plan.batches)
        return replace(pair_up(self.framed(sources), self.framed(targets), TOKENS), pairs=rows)

    @classmethod
    def learn_vocabulary(cls, recipe: Recipe, spool: Spool) -> Vocabulary:
        kinds, size = recipe.data.tokenizers, recipe.data.vocabulary
        return train_vocabulary(kinds, spool.sources, spool.targets, size=size, joint=True)

    @classmethod
    def keep_vocabulary(cls, known: Vocabulary, spool: Spool, begun: bool) -> Vocabulary:
        """The known pieces, without the labels that a classifier has."""
        return Vocabulary(known.source)

    @classmethod
    def describe(cls, data: Parallel, vocabulary: Vocabulary, recipe: Recipe, say: Say) -> None:
        pieces = int(data.sources.lengths.sum()) + int(data.targets.lengths.sum())
        describe_sets(data, "pair", f"{pieces:,} pieces", say)
        say(f"vocabulary: {vocabulary.source.size:,} pieces")

    def loss(self, model: nn.Module, batch: SimilarityBatch) -> Float[Tensor, ""]:
        vectors = torch.cat([self.pool(model(*part.inputs), part.layout).float() for part in batch.parts])
        texts, partners = vectors[batch.places].chunk(2)
        return in_batch_loss(texts, partners, batch.same)

    def validate(self, model: nn.Module, *, final: bool = False, on: str = "dev", team: Team = ALONE) -> Validation:
        """Score a model. The best is the one with the highest mean reciprocal rank."""
        pairs = self.held_out[on]
        with evaluating(model):
            embedder = Embedder(model, self.vocabulary.source, self.recipe.embed)  # type: ignore[arg-type]
            embed = EmbeddedOnce((text for pair in pairs for text in pair), embedder)
        metrics = {"loss": mean_loss(pairs, embed), **retrieval_metrics(partner_ranks(pairs, embed))}
        return Validation(metrics["mrr"], metrics, nearest_partners(pairs, embed))


def mean_loss(pairs: list[Pair], embed: Embed) -> float:
    """The mean loss of a pair, each among its neighbours in the set."""
    total = 0.0
    for start in range(0, len(pairs), JUDGED):
        texts, partners = zip(*pairs[start : start + JUDGED], strict=True)
        here, there = (torch.from_numpy(embed(list(side))) for side in (texts, partners))
        total += float(in_batch_loss(here, there, same_texts(texts, partners)))
    return total / len(pairs)


def nearest_partners(pairs: list[Pair], embed: Embed) -> list[Sample]:
    """For each of the first texts its partner, and the one nearest by cosine among the first few hundred partners."""
    some = pairs[:JUDGED]
    texts = unit(embed([text for text, _ in some[:SAMPLES]]))
    nearest = (texts @ unit(embed([partner for _, partner in some])).T).argmax(1)
    return [Sample(*pair, some[n][1]) for pair, n in zip(some[:SAMPLES], nearest, strict=True)]
