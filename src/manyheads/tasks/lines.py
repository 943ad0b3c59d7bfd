"""The base of tasks whose data are lines of files, which are pairs or texts.

Reading lines, storing them as ids and making batches of them is the same for all these tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from torch import nn

from manyheads.errors import how_many
from manyheads.inspection.moments import Pair as PairIds
from manyheads.modelfolder import RECIPE, TOKENIZER
from manyheads.recipe import Recipe
from manyheads.tasks.consistency import PairLoss
from manyheads.tasks.pairs import Parts, pad_in_parts
from manyheads.tasks.task import Say, changed_data
from manyheads.tasks.teachers import Teachers
from manyheads.team import ALONE, Team
from manyheads.text.batches import BatchPlan
from manyheads.text.bytepairs import BytePairs
from manyheads.text.corpus import Corpus, Counts, Pair, Paths, ReadOptions, check_paths, files_of
from manyheads.text.cutters import employed
from manyheads.text.dropout import MergeDropout, Recut
from manyheads.text.packs import PackPlan, Room
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
from manyheads.text.spool import Spool
from manyheads.text.tokenizer import PADDING, Tokenizer
from manyheads.text.turns import Numbers
from manyheads.text.vocabulary import Vocabulary, train_tokenizer

__all__ = ["LineTask", "TextTask", "corpora_of", "describe_sets"]


class LineTask:
    """A task on lines. Subclasses define how a batch is made from rows, and which side of them is predicted."""

    texts: ClassVar[bool] = False
    """True if each line is a text, not a pair."""

    labelled: ClassVar[bool] = False
    """True if the labels of texts are learnt."""

    summed_loss: PairLoss
    """The loss summed over tokens, if the task predicts tokens."""

    teachers: Sequence[nn.Module] = ()

    cuts: ClassVar[bool] = False
    """True if lines that are too long are cut, not left out."""

    has_few_shapes = False

    def __init__(
        self, recipe: Recipe, vocabulary: Vocabulary, data: Parallel, folder: Path, old: list[Pair] | None = None
    ) -> None:
        self.recipe, self.vocabulary, self.data, self.folder = recipe, vocabulary, data, folder
        self.held_out = {"dev": data.dev} | ({"old": old} if old else {})
        self.sources = as_learnt(data.sources, vocabulary.source, recipe, side=0)
        self.targets = as_learnt(data.targets, vocabulary.target, recipe, side=1)
        self.fingerprint = data.fingerprint
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
    ) -> Self:
        reading = cls.reading(recipe)
        corpora = corpora_of(data, reading)
        train, dev = corpora["train"] or (), corpora["dev"]
        old = data.get("old")
        old_pairs = read_dev(check_paths(old, "--old-dev", reading), Counts()) if old else None
        known = Vocabulary.loads(files[TOKENIZER].decode(), TOKENIZER) if TOKENIZER in files else None
        begun = RECIPE in files  # a run that never started may have left other data
        before = read_ready(folder) if begun else {}
        if before and not changed:
            check_unchanged(corpora, before)
        if known is None or changed or not begun or not is_prepared(folder):
            learn = (
                partial(cls.learn_vocabulary, recipe)
                if known is None
                else partial(cls.keep_vocabulary, known, begun=begun)
            )
            text = None if changed else before.get("text")
            known = prepare_parallel(folder, train, dev, learn, cls.most_pieces(recipe, known), text, cls.cuts)
        vocabulary = known
        parallel = open_parallel(folder, vocabulary)
        cls.describe(parallel, vocabulary, recipe, say)
        return cls(recipe, vocabulary, parallel, folder, old_pairs)

    @classmethod
    def check(cls, recipe: Recipe, folder: Path, data: Mapping[str, Paths | None]) -> None:
        if before := read_ready(folder):
            check_unchanged(corpora_of(data, cls.reading(recipe)), before)

    @classmethod
    def check_team(cls, team: Team) -> None:
        """Accept any number of processes, unless a task overrides this."""

    @classmethod
    def reading(cls, recipe: Recipe) -> ReadOptions:
        return replace(recipe.data.reading, texts=cls.texts, labels=cls.labelled)

    @classmethod
    def most_pieces(cls, recipe: Recipe, known: Vocabulary | None) -> int:
        """The most pieces of a line that are learnt from. `known`: the vocabulary, unless it is still to be learnt."""
        return recipe.data.max_length

    def learn_from(self, teachers: Sequence[nn.Module], fingerprint: str) -> None:
        """Add teachers, in tasks that predict tokens: recipes for other tasks name none."""
        self.summed_loss = replace(self.summed_loss, teachers=Teachers(teachers, self.recipe.train.taught))
        self.teachers = teachers
        self.fingerprint = {**self.fingerprint, "teachers": fingerprint}

    def files(self) -> dict[str, bytes]:
        return {TOKENIZER: self.vocabulary.dumps().encode()}

    def arrange(self, packs: int) -> BatchPlan | PackPlan:
        """Plan batches of this number of packs; if it is 0, batches of sentences of one length, to be padded."""
        lengths = self.lengths()
        train = self.recipe.train
        corpora = self.corpora()
        if packs:
            self.plan = PackPlan(*lengths, train.tokens, train.seed, corpora, packs)
        else:
            self.plan = BatchPlan(*lengths, train.tokens, train.seed, corpora)
        return self.plan

    def corpora(self) -> list[tuple[int, float]]:
        """(lines, weight) of each corpus."""
        return [(lines, weight) for _, lines, weight in self.data.corpora]

    @property
    def longest(self) -> int:
        """No line has more tokens than this on either side, counted as in a pack."""
        return self.recipe.data.max_length + self.around

    def lengths(self) -> tuple[Numbers, Numbers]:
        """Tokens of both sides of every line, counted as in a batch."""
        return self.sources.lengths + self.around, self.targets.lengths + self.around

    @property
    def around(self) -> int:
        """Tokens added on either side: the end of the source, the begin or the end of the target."""
        return 1

    @property
    def batches_per_epoch(self) -> int:
        return self.plan.batches

    def batch(self, step: int, team: Team = ALONE) -> Any:
        """The batch of a step, padded. If the plan is made of packs, it has their lines."""
        if isinstance(self.plan, BatchPlan):
            return self.share_of(self.plan.rows(step), step, team)
        rows = np.concatenate(self.plan.rows(step))
        if team.size > 1:  # each must compute the same number of parts: one
            return self.share_of(rows, step, team)
        parts = [
            part for sides in self.pieces(step) for part in pad_in_parts(*sides, max(self.plan.room[:2]), self.pad)
        ]
        return Parts(parts, at_least_one(sum(part.count for part in parts)), rows)

    def rounded(self, step: int) -> Any:
        """The batch of a step, padded a little more, to one of a few shapes.

        There are few because sentences are cut into batches by length, in the same way in every epoch.
        """
        return self.batch(step).rounded()

    def share_of(self, rows: Numbers, step: int, team: Team) -> Any:
        """This process' share of the lines, padded."""
        sources, targets = self.rows(rows, step // self.plan.batches)
        mine = list(team.share(range(len(rows))))
        # All processes compute the same number of lines: one that is short gets a line from which nothing is learnt.
        short = -(-len(rows) // team.size) - len(mine)
        batch = self.pad(sources.some(mine + [0] * short), targets.some(mine + [0] * short))
        self.silence(batch, len(mine))
        return replace(batch, count=at_least_one(self.count(sources, targets)), pairs=rows[mine])

    def silence(self, batch: Any, first: int) -> None:
        """Learn nothing from the rows of a batch from `first` on."""
        batch.labels[first:] = PADDING

    def packs(self, step: int) -> Parts[Any]:
        assert isinstance(self.plan, PackPlan)
        pieces, longest = list(self.pieces(step)), self.longest
        packs = [self.pack(*sides, self.plan.room, longest) for sides in pieces]
        count = at_least_one(sum(self.count(*sides) for sides in pieces))
        return Parts(packs, count, np.concatenate(self.plan.rows(step)))

    def pad(self, sources: Rows, targets: Rows) -> Any:
        """A batch with one line per row."""
        raise NotImplementedError

    def pack(self, sources: Rows, targets: Rows, room: Room, longest: int) -> Any:
        """A pack of fixed size, with one line after the other."""
        raise NotImplementedError

    def count(self, sources: Rows, targets: Rows) -> int:
        """The number of tokens to predict, the end of every line included."""
        raise NotImplementedError

    @classmethod
    def learn_vocabulary(cls, recipe: Recipe, spool: Spool) -> Vocabulary:
        raise NotImplementedError

    @classmethod
    def keep_vocabulary(cls, known: Vocabulary, spool: Spool, begun: bool) -> Vocabulary:
        """The vocabulary of the base in fine-tuning or, if `begun`, of the resumed run."""
        return known

    @classmethod
    def describe(cls, data: Parallel, vocabulary: Vocabulary, recipe: Recipe, say: Say) -> None:
        """Print what there is to learn from."""
        raise NotImplementedError

    def example(self) -> PairIds | None:
        """None, unless a task has a pair to observe."""
        return None

    def settle(self, model: nn.Module) -> Recipe:
        """The recipe as it is, unless a task finds something out about the model."""
        return self.recipe

    def pieces(self, step: int) -> Iterator[tuple[Rows, Rows]]:
        """Sources and targets of each pack of a step."""
        assert isinstance(self.plan, PackPlan)
        for rows in self.plan.rows(step):
            yield self.rows(rows, step // self.plan.batches, *self.plan.room[:2])

    def rows(
        self, rows: Numbers, epoch: int, source_room: int | None = None, target_room: int | None = None
    ) -> tuple[Rows, Rows]:
        """Sources and targets. Both are started before either is waited for: processes cut them at the same time."""
        sources = self.sources.begin(rows, epoch, source_room)
        targets = self.targets.begin(rows, epoch, target_room)
        return sources(), targets()

    def lines(self, batch: Any) -> dict[str, list[int]]:
        return self.data.places(batch.pairs)

    def hastened(self) -> AbstractContextManager[None]:
        return employed((self.sources, self.targets))

    def close(self) -> None:
        forget_ids(self.folder)


class TextTask(LineTask):
    """A task on texts, one per line. A text takes the place of a pair's source."""

    texts: ClassVar[bool] = True

    @classmethod
    def learn_vocabulary(cls, recipe: Recipe, spool: Spool) -> Vocabulary:
        return Vocabulary(train_tokenizer(recipe.data.tokenizer, spool.sources(), recipe.data.vocabulary))

    @classmethod
    def describe(cls, data: Parallel, vocabulary: Vocabulary, recipe: Recipe, say: Say) -> None:
        describe_sets(data, "text", f"{int(data.sources.lengths.sum()):,} pieces", say)
        say(f"vocabulary: {vocabulary.source.size:,} pieces")


def describe_sets(data: Parallel, what: str, pieces: str, say: Say, of_dev: str = "") -> None:
    """Print what the training set and the development set have.

    what     one line is called
    pieces   how many there are in the training set, in words
    of_dev   anything else about the development set
    """
    mixed = [f"{name}: {how_many(lines, what)} × {weight:g}" for name, lines, weight in data.corpora]
    parts = (mixed if len(mixed) > 1 else []) + data.train_counts.sentences()
    say(f"train: {how_many(len(data.sources), what)}, {pieces}" + listed(parts))
    held_out = ", held out from the training set" if data.held_out else ""
    say(f"dev: {how_many(len(data.dev), what)}{held_out}{of_dev}" + listed(data.dev_counts.sentences()))


def at_least_one(count: int) -> int:
    """What a summed loss is divided by. In lines without any pieces there is nothing to predict."""
    return max(1, count)


def corpora_of(data: Mapping[str, Paths | None], reading: ReadOptions) -> dict[str, tuple[Corpus, ...] | None]:
    dev = data["dev"]
    return {
        "train": check_paths(data["train"] or (), "--train", reading),
        "dev": check_paths(dev, "--dev", reading) if dev else None,
    }


def as_learnt(stored: Sequences, tokenizer: Tokenizer, recipe: Recipe, side: int) -> Sequences | Recut:
    """One side of the pairs, as it is stored or, with BPE-dropout, cut into other pieces in every epoch."""
    probability = recipe.data.bpe_dropout
    if not probability or not isinstance(tokenizer, BytePairs):
        return stored
    return Recut(stored, MergeDropout(tokenizer, probability, recipe.train.seed, side), recipe.data.max_length)


def check_unchanged(data: Mapping[str, Sequence[Corpus] | None], before: Mapping[str, Any]) -> None:
    """Refuse data that is not what the run started with: a resumed run is the same run."""
    for name, sums in fingerprint(data).items():
        stored = before["files"][name]
        if len(sums) != len(stored):
            raise changed_data(f"{len(sums)} files as --{name} instead of {len(stored)}")
        for path, then, now in zip(files_of(data[name] or ()), stored, sums, strict=True):
            if then != now:
                raise changed_data(f"other content in {path}" if now else f"{path}, which cannot be read")
    if len(data["train"] or ()) != len(before["corpora"]):
        raise changed_data("the same files, read as different pairs")
    for corpus, (_, _, weight) in zip(data["train"] or (), before["corpora"], strict=True):
        if corpus.weight != weight:
            raise changed_data(f"weight {corpus.weight:g} of {corpus} instead of {weight:g}")


def listed(sentences: list[str]) -> str:
    return "".join(f"\n  {sentence}" for sentence in sentences)
