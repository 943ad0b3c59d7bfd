"""Translation, and whatever else turns one line into another: a letter string into phones, a log line into fields.

An encoder-decoder learns from pairs by teacher forcing: it reads the true previous tokens and is asked for the next one.

B pairs · S source tokens · T target tokens
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.decoding.find_reading import find_reading
from manyheads.decoding.rooms import forget_rooms
from manyheads.decoding.translation import ForcedScore
from manyheads.decoding.translator import Translator
from manyheads.evaluation.rates import mean_loss, perplexity
from manyheads.evaluation.scores import Scores, score_outputs
from manyheads.inspection.moments import Pair as PairIds
from manyheads.inspection.sides import number_words
from manyheads.modelfolder import RECIPE, TOKENIZER
from manyheads.models.transformer import Transformer
from manyheads.recipe import Recipe
from manyheads.tasks.consistency import FusedPairLoss, choose_loss
from manyheads.tasks.pairs import PackedPairs, PairBatch, Pairs, Parts, pack_pairs, pad_in_parts, pad_pairs
from manyheads.tasks.task import Sample, Say, Validation, changed_data
from manyheads.team import ALONE, Team
from manyheads.text.batches import BatchPlan
from manyheads.text.bytepairs import BytePairs
from manyheads.text.corpus import Corpus, Counts, Pair, Paths, check_paths, files_of
from manyheads.text.cutters import employed
from manyheads.text.dropout import MergeDropout, Recut
from manyheads.text.packs import PackPlan
from manyheads.text.parallel import (
    Parallel,
    fingerprint,
    forget_ids,
    is_prepared,
    open_parallel,
    prepare_parallel,
    read_dev,
    read_ready,
)
from manyheads.text.shards import Rows, Sequences
from manyheads.text.tokenizer import BEGIN, END, PADDING, Tokenizer
from manyheads.text.turns import Numbers
from manyheads.text.vocabulary import Vocabulary, train_vocabulary

__all__ = ["Task"]

Lines = Callable[[], Iterable[str]]

SAMPLES = 5
VALIDATION_BATCH = 256
FEW, SOME, MANY = 9, 18, 64
"""Pieces of a side of the example: about as many as can be seen at once, between the first two; never more than the last."""
TRIED = 1_000


class Task:
    """Pairs to learn from, pairs to be judged by."""

    def __init__(
        self, recipe: Recipe, vocabulary: Vocabulary, data: Parallel, folder: Path, old: list[Pair] | None = None
    ) -> None:
        self.recipe, self.vocabulary, self.data, self.folder = recipe, vocabulary, data, folder
        self.held_out = {"dev": data.dev} | ({"old": old} if old else {})
        self.sources = as_learnt(data.sources, vocabulary.source, recipe, side=0)
        self.targets = as_learnt(data.targets, vocabulary.target, recipe, side=1)
        self.fingerprint = data.fingerprint
        self.summed_loss = choose_loss(recipe.train)
        self.plan = self.arrange(packs=0)

    @classmethod
    def prepare(
        cls,
        recipe: Recipe,
        folder: Path,
        data: Mapping[str, Paths | None],
        files: Mapping[str, bytes],
        say: Say,
        changed: bool = False,
    ) -> "Task":
        corpora = corpora_of(recipe, data)
        train, dev = corpora["train"] or (), corpora["dev"]
        old = data.get("old")
        old_pairs = read_dev(check_paths(old, "--old-dev", recipe.data.reading), Counts()) if old else None
        known = Vocabulary.loads(files[TOKENIZER].decode(), TOKENIZER) if TOKENIZER in files else None
        begun = RECIPE in files  # what a run that never began has left may be other data
        before = read_ready(folder) if begun else {}
        if before and not changed:
            check_unchanged(corpora, before)
        if known is None or changed or not begun or not is_prepared(folder):
            learn = partial(learn_vocabulary, recipe) if known is None else lambda *_: known
            text = None if changed else before.get("text")
            known = prepare_parallel(folder, train, dev, learn, recipe.data.max_length, text)
        vocabulary = known
        parallel = open_parallel(folder, vocabulary)
        describe(parallel, vocabulary, recipe.train.validate_lines, say)
        return cls(recipe, vocabulary, parallel, folder, old_pairs)

    @classmethod
    def check(cls, recipe: Recipe, folder: Path, data: Mapping[str, Paths | None]) -> None:
        if before := read_ready(folder):
            check_unchanged(corpora_of(recipe, data), before)

    def files(self) -> dict[str, bytes]:
        return {TOKENIZER: self.vocabulary.dumps().encode()}

    def build(self) -> Transformer:
        return Transformer(self.recipe.transformer, self.vocabulary.sizes)

    @property
    def packs_well(self) -> bool:
        return self.recipe.transformer.packs_well

    def arrange(self, packs: int) -> BatchPlan | PackPlan:
        """Batches of so many packs; or, of none, of sentences of one length, to be padded."""
        # One more token on either side: the end of the source, the begin or the end of the target.
        lengths = self.sources.lengths + 1, self.targets.lengths + 1
        train = self.recipe.train
        corpora = [(pairs, weight) for _, pairs, weight in self.data.corpora]
        if packs:
            self.plan = PackPlan(*lengths, train.tokens, train.seed, corpora, packs)
        else:
            self.plan = BatchPlan(*lengths, train.tokens, train.seed, corpora)
        return self.plan

    @property
    def batches_per_epoch(self) -> int:
        return self.plan.batches

    def batch(self, step: int, team: Team = ALONE) -> PairBatch | Parts[PairBatch]:
        """If the plan is made of packs, their pairs, padded."""
        if isinstance(self.plan, BatchPlan):
            return self.share_of(self.plan.rows(step), step, team)
        rows = np.concatenate(self.plan.rows(step))
        if team.size > 1:  # each must compute as many parts as the others: one
            return self.share_of(rows, step, team)
        parts = [part for pair in self.pieces(step) for part in pad_in_parts(*pair, max(self.plan.room[:2]))]
        return Parts(parts, sum(part.count for part in parts), rows)

    def share_of(self, rows: Numbers, step: int, team: Team) -> PairBatch:
        """A process' share of pairs, padded."""
        sources, targets = self.rows(rows, step // self.plan.batches)
        mine = list(team.share(range(len(rows))))
        # All processes compute as many pairs: who has one less gets one along with which there is nothing to learn.
        short = -(-len(rows) // team.size) - len(mine)
        batch = pad_pairs(sources.some(mine + [0] * short), targets.some(mine + [0] * short))
        batch.labels[len(mine) :] = PADDING
        return replace(batch, count=int(targets.lengths.sum()) + len(rows), pairs=rows[mine])

    def packs(self, step: int) -> Parts[PackedPairs]:
        assert isinstance(self.plan, PackPlan)
        pieces, longest = list(self.pieces(step)), self.recipe.data.max_length + 1
        count = sum(int(targets.lengths.sum()) + len(targets.lengths) for _, targets in pieces)
        packs = [pack_pairs(*pair, self.plan.room, longest) for pair in pieces]
        return Parts(packs, count, np.concatenate(self.plan.rows(step)))

    def pieces(self, step: int) -> Iterator[tuple[Rows, Rows]]:
        """Sources and targets of each pack of a step."""
        assert isinstance(self.plan, PackPlan)
        for rows in self.plan.rows(step):
            yield self.rows(rows, step // self.plan.batches, *self.plan.room[:2])

    def rows(
        self, rows: Numbers, epoch: int, source_room: int | None = None, target_room: int | None = None
    ) -> tuple[Rows, Rows]:
        """Sources and targets. Both are begun before either is waited for: processes cut them at the same time."""
        sources = self.sources.begin(rows, epoch, source_room)
        targets = self.targets.begin(rows, epoch, target_room)
        return sources(), targets()

    def lines(self, batch: PairBatch | Parts[Any]) -> dict[str, list[int]]:
        return self.data.places(batch.pairs)

    def hastened(self) -> AbstractContextManager[None]:
        return employed((self.sources, self.targets))

    def loss(self, model: nn.Module, batch: Pairs) -> Float[Tensor, ""]:
        return self.summed_loss(model, batch)

    def fused_loss(self) -> FusedPairLoss:
        return self.summed_loss.fused()

    def example(self) -> PairIds | None:
        """The first pair with a moderate number of pieces on both sides, and as few of its words in several pieces as there are."""
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
        """With the attention that aligns best, unless the recipe names one."""
        if self.recipe.decode.alignment:
            return self.recipe
        translator = Translator(model, self.vocabulary, self.recipe)  # type: ignore[arg-type]
        found = str(find_reading(translator, self.data.dev))
        return replace(self.recipe, decode=replace(self.recipe.decode, alignment=found))

    def close(self) -> None:
        forget_ids(self.folder)

    def validate(self, model: nn.Module, *, final: bool = False, on: str = "dev", team: Team = ALONE) -> Validation:
        """Loss on all pairs, scores on as many translations as the recipe says: greedy, or as the recipe decodes if final."""
        try:
            return self.judge(model, final=final, on=on, team=team)
        finally:
            forget_rooms(model)

    def judge(self, model: nn.Module, *, final: bool, on: str, team: Team) -> Validation:
        translator = Translator(model, self.vocabulary, self.recipe)  # type: ignore[arg-type]
        scored = [(one.log_probability, one.tokens) for one in translator.score(team.share(self.held_out[on]))]
        loss = mean_loss([ForcedScore(*one) for one in team.joined(scored)])
        metrics = {"loss": loss, "perplexity": perplexity(loss)}
        pairs = spread_pairs(self.held_out[on], self.recipe.train.validate_lines)
        if not pairs:
            return Validation(-loss, metrics)
        beam = self.recipe.decode.beam if final else 1
        search = translator.search(beam=beam, batch=VALIDATION_BATCH)
        sources = list(dict.fromkeys(source for source, _ in pairs))
        found = team.joined([t.text for t in translator.translate(team.share(sources), search)])
        by_source = dict(zip(sources, found, strict=True))
        outputs = [by_source[source] for source, _ in pairs]
        scores = score_outputs(pairs, outputs, symbols=self.vocabulary.target.kind == "symbols")
        samples = [Sample(*pair, output) for pair, output in zip(pairs[:SAMPLES], outputs, strict=False)]
        return Validation(chosen_by(scores), metrics | reported(scores), samples)


def learn_vocabulary(recipe: Recipe, sources: Lines, targets: Lines) -> Vocabulary:
    joint = recipe.transformer.tie == "all"
    return train_vocabulary(recipe.data.tokenizers, sources, targets, size=recipe.data.vocabulary, joint=joint)


def corpora_of(recipe: Recipe, data: Mapping[str, Paths | None]) -> dict[str, tuple[Corpus, ...] | None]:
    reading, dev = recipe.data.reading, data["dev"]
    return {
        "train": check_paths(data["train"] or (), "--train", reading),
        "dev": check_paths(dev, "--dev", reading) if dev else None,
    }


def as_learnt(stored: Sequences, tokenizer: Tokenizer, recipe: Recipe, side: int) -> Sequences | Recut:
    """One side of the pairs: as it is stored, or cut into other pieces in every epoch."""
    probability = recipe.data.bpe_dropout
    if not probability or not isinstance(tokenizer, BytePairs):
        return stored
    return Recut(stored, MergeDropout(tokenizer, probability, recipe.train.seed, side), recipe.data.max_length)


def check_unchanged(data: Mapping[str, Sequence[Corpus] | None], before: Mapping[str, Any]) -> None:
    """A resumed run is the same run: on the same data."""
    for name, sums in fingerprint(data).items():
        stored = before["files"][name]
        if len(sums) != len(stored):
            raise changed_data(f"{len(sums)} files as --{name} instead of {len(stored)}")
        for path, then, now in zip(files_of(data[name] or ()), stored, sums, strict=True):
            if then != now:
                raise changed_data(f"other content in {path}" if now else f"{path}, which cannot be read")
    for corpus, (_, _, weight) in zip(data["train"] or (), before["corpora"], strict=True):
        if corpus.weight != weight:
            raise changed_data(f"weight {corpus.weight:g} of {corpus} instead of {weight:g}")


def describe(data: Parallel, vocabulary: Vocabulary, translated: int, say: Say) -> None:
    tokens = int(data.targets.lengths.sum())
    mixed = [f"{name}: {pairs:,} pairs × {weight:g}" for name, pairs, weight in data.corpora]
    parts = (mixed if len(mixed) > 1 else []) + data.train_counts.sentences()
    say(f"train: {len(data.sources):,} pairs, {tokens:,} target pieces" + listed(parts))
    held_out = ", held out of the training set" if data.held_out else ""
    some = f", {translated:,} of them translated at each validation" if translated < len(data.dev) else ""
    say(f"dev: {len(data.dev):,} pairs{held_out}{some}" + listed(data.dev_counts.sentences()))
    source, target = vocabulary.sizes
    sizes = (
        f"{source:,} pieces for both sides" if vocabulary.joint else f"{source:,} source and {target:,} target pieces"
    )
    say(f"vocabulary: {sizes}")


def listed(sentences: list[str]) -> str:
    return "".join(f"\n  {sentence}" for sentence in sentences)


def beyond(ids: Sequence[int]) -> int:
    """How many pieces more, or fewer, than a moderate number."""
    return max(FEW - len(ids), len(ids) - SOME, 0)


def splits(tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    """Pieces beyond one for each word."""
    return len(ids) - len(set(number_words(tokenizer, ids)))


def spread_pairs(pairs: list[Pair], most: int) -> list[Pair]:
    """Pairs of at most `most` sources, spread over the set (many sets are sorted), each source with all its targets."""
    sources = list(dict.fromkeys(source for source, _ in pairs))
    count = min(most, len(sources))
    chosen = {sources[n * len(sources) // count] for n in range(count)}
    return [pair for pair in pairs if pair[0] in chosen]


def chosen_by(scores: Scores) -> float:
    """chrF tells beginners apart where BLEU is still 0, and phones do where no word is right yet."""
    return -(scores.extra["wer"] + scores.extra["per"]) if scores.extra else scores.chrf


def reported(scores: Scores) -> dict[str, float]:
    return scores.extra or {"bleu": scores.bleu, "chrf": scores.chrf, "exact": scores.exact}
