"""Translation, and anything else that turns one line into another: a letter string into phones, a log line into fields.

An encoder-decoder learns from pairs by teacher forcing: it reads the true previous tokens and predicts the next one.

B pairs · S source tokens · T target tokens
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from manyheads.decoding.find_reading import find_reading
from manyheads.decoding.recordings import forget_recordings
from manyheads.decoding.translation import ForcedScore
from manyheads.decoding.translator import Translator
from manyheads.evaluation.rates import mean_loss, perplexity
from manyheads.evaluation.scores import Scores, score_outputs
from manyheads.inspection.moments import Pair as PairIds
from manyheads.inspection.sides import number_words
from manyheads.models.transformer import Transformer
from manyheads.recipe import Recipe
from manyheads.tasks.consistency import FusedPairLoss, choose_loss
from manyheads.tasks.lines import LineTask, describe_sets
from manyheads.tasks.pairs import PackedPairs, PairBatch, Pairs, pack_pairs, pad_pairs
from manyheads.tasks.task import Sample, Say, Validation
from manyheads.team import ALONE, Team
from manyheads.text.corpus import Pair
from manyheads.text.packs import Room
from manyheads.text.parallel import Parallel
from manyheads.text.shards import Rows
from manyheads.text.spool import Spool
from manyheads.text.tokenizer import BEGIN, END, Tokenizer
from manyheads.text.vocabulary import Vocabulary, train_vocabulary

__all__ = ["Task"]

SAMPLES = 5
VALIDATION_BATCH = 256
FEW, SOME, MANY = 9, 18, 64
"""Pieces on each side of the example: ideally between the first two, about what can be viewed at once; at most MANY."""
TRIED = 1_000
BY_CHANCE = 15
"""The chrF that a model may reach by writing the same frequent words, whatever it reads."""


class Task(LineTask):
    """Learns from pairs, and is scored on others."""

    def __init__(self, recipe: Recipe, *data: Any) -> None:
        super().__init__(recipe, *data)
        self.summed_loss = choose_loss(recipe.train)

    def build(self) -> Transformer:
        return Transformer(self.recipe.transformer, self.vocabulary.sizes)

    @property
    def packs_well(self) -> bool:
        return self.recipe.transformer.packs_well

    def pad(self, sources: Rows, targets: Rows) -> PairBatch:
        return pad_pairs(sources, targets)

    def pack(self, sources: Rows, targets: Rows, room: Room, longest: int) -> PackedPairs:
        return pack_pairs(sources, targets, room, longest)

    def count(self, sources: Rows, targets: Rows) -> int:
        return int(targets.lengths.sum()) + len(targets.lengths)

    @classmethod
    def learn_vocabulary(cls, recipe: Recipe, spool: Spool) -> Vocabulary:
        kinds, size, joint = recipe.data.tokenizers, recipe.data.vocabulary, recipe.transformer.tie == "all"
        return train_vocabulary(
            kinds, spool.sources, spool.targets, size=size, joint=joint, backwards=recipe.data.backwards
        )

    @classmethod
    def describe(cls, data: Parallel, vocabulary: Vocabulary, recipe: Recipe, say: Say) -> None:
        translated = recipe.train.validate_lines
        some = f", {translated:,} of them translated at each validation" if translated < len(data.dev) else ""
        describe_sets(data, "pair", f"{int(data.targets.lengths.sum()):,} target pieces", say, some)
        source, target = vocabulary.sizes
        sizes = (
            f"{source:,} pieces for both sides"
            if vocabulary.joint
            else f"{source:,} source and {target:,} target pieces"
        )
        say(f"vocabulary: {sizes}")

    def loss(self, model: nn.Module, batch: Pairs) -> Float[Tensor, ""]:
        return self.summed_loss(model, batch)

    def fused_loss(self) -> FusedPairLoss:
        return self.summed_loss.fused()

    def example(self) -> PairIds | None:
        """The first pair with a moderate number of pieces on both sides, and with as few split words as possible."""
        pairs, sides = self.held_out["dev"][:TRIED], (self.vocabulary.source, self.vocabulary.target)
        cut = [tokenizer.encode([pair[side] for pair in pairs]) for side, tokenizer in enumerate(sides)]
        found = min(
            zip(*cut, strict=True),
            key=lambda pair: (sum(map(beyond, pair)), sum(map(splits, sides, pair))),
            default=None,
        )
        if found is None or max(map(len, found)) > MANY:
            return None
        return PairIds((*found[0], END), (BEGIN, *found[1], END))

    def settle(self, model: nn.Module) -> Recipe:
        """The recipe with the attention that aligns best, unless it names one."""
        if self.recipe.decode.alignment:
            return self.recipe
        found = str(find_reading(self.translator(model), self.data.dev))
        return replace(self.recipe, decode=replace(self.recipe.decode, alignment=found))

    def validate(self, model: nn.Module, *, final: bool = False, on: str = "dev", team: Team = ALONE) -> Validation:
        """Loss on all pairs, scores on as many translations as the recipe says: greedy, or, if final, as it decodes."""
        try:
            return self.judge(model, final=final, on=on, team=team)
        finally:
            forget_recordings(model)

    def judge(self, model: nn.Module, *, final: bool, on: str, team: Team) -> Validation:
        translator = self.translator(model)
        scored = [(one.log_probability, one.tokens) for one in translator.score(team.share(self.held_out[on]))]
        loss = mean_loss([ForcedScore(*one) for one in team.joined(scored)])
        metrics = {"loss": loss, "perplexity": perplexity(loss)}
        pairs = spread_pairs(self.held_out[on], self.recipe.train.validate_lines)
        if not pairs:
            return Validation(-loss, metrics)
        search = self.search(translator, final)
        sources = list(dict.fromkeys(source for source, _ in pairs))
        found = team.joined([t.text for t in translator.translate(team.share(sources), search)])
        by_source = dict(zip(sources, found, strict=True))
        outputs = [by_source[source] for source, _ in pairs]
        scores = score_outputs(pairs, outputs, symbols=self.vocabulary.target.kind == "symbols")
        samples = [Sample(*pair, output) for pair, output in zip(pairs[:SAMPLES], outputs, strict=False)]
        return Validation(while_learning(scores, loss), metrics | reported(scores), samples)

    def translator(self, model: nn.Module) -> Translator:
        return Translator(model, self.vocabulary, self.recipe)  # type: ignore[arg-type]

    def search(self, translator: Translator, final: bool) -> Any:
        return translator.search(beam=self.recipe.decode.beam if final else 1, batch=VALIDATION_BATCH)


def spread_pairs(pairs: list[Pair], most: int) -> list[Pair]:
    """Pairs of at most `most` sources, spread over the set (many sets are sorted), each source with all its targets."""
    sources = list(dict.fromkeys(source for source, _ in pairs))
    count = min(most, len(sources))
    chosen = {sources[n * len(sources) // count] for n in range(count)}
    return [pair for pair in pairs if pair[0] in chosen]


def chosen_by(scores: Scores) -> float:
    """The score that the best model is chosen by.

    chrF ranks beginners while BLEU is still 0, as errors of phones do while no word is right yet.
    """
    return -(scores.extra["wer"] + scores.extra["per"]) if scores.extra else scores.chrf


def while_learning(scores: Scores, loss: float) -> float:
    """The same for models that may know nothing yet.

    Some letters are right by chance; up to that level, the loss says more than chrF. Any model above it is better.
    """
    chosen = chosen_by(scores)
    return chosen if scores.extra or chosen >= BY_CHANCE else BY_CHANCE * math.exp(-loss)


def reported(scores: Scores) -> dict[str, float]:
    return scores.extra or {"bleu": scores.bleu, "chrf": scores.chrf, "exact": scores.exact}


def beyond(ids: Sequence[int]) -> int:
    """By how many pieces a side is above or below a moderate number."""
    return max(FEW - len(ids), len(ids) - SOME, 0)


def splits(tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    """The number of pieces beyond one per word."""
    return len(ids) - len(set(number_words(tokenizer, ids)))
