"""Translation, and whatever else turns one line into another: a letter string into phones, a log line into fields.

An encoder-decoder learns from pairs by teacher forcing: it reads the true previous tokens and is asked for the next one.

B pairs · S source tokens · T target tokens
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.decoding.translator import Translator
from manyheads.errors import InputError
from manyheads.evaluation.rates import mean_loss, perplexity
from manyheads.evaluation.scores import Scores, score_outputs
from manyheads.modelfolder import TOKENIZER
from manyheads.models.transformer import Transformer
from manyheads.recipe import Recipe
from manyheads.tasks.task import Sample, Say, Validation
from manyheads.text.batches import BatchPlan
from manyheads.text.corpus import Corpus, Pair, Paths, check_paths, files_of
from manyheads.text.parallel import (
    Parallel,
    fingerprint,
    forget_ids,
    is_prepared,
    open_parallel,
    prepare_parallel,
    read_ready,
)
from manyheads.text.tokenizer import BEGIN, END, PADDING
from manyheads.text.vocabulary import Vocabulary, train_vocabulary

__all__ = ["PairBatch", "Task", "smoothed_loss"]

Lines = Callable[[], Iterable[str]]

SAMPLES = 5
VALIDATION_BATCH = 256


@dataclass(frozen=True, eq=False)
class PairBatch:
    """source: ids and end · target: begin and ids · labels: ids and end; padding behind each.

    count   target tokens, the end included, of the whole batch, also in a part of it
    """

    source: Int[Tensor, "B S"]
    target: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]
    count: int

    def to(self, device: torch.device) -> "PairBatch":
        if device.type == "cpu":
            return self
        return self.with_tensors(t.pin_memory().to(device, non_blocking=True) for t in self.tensors)

    def split(self, parts: int) -> list["PairBatch"]:
        return [self.with_tensors(rows) for rows in zip(*(t.chunk(parts) for t in self.tensors), strict=True)]

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.source, self.target, self.labels

    def with_tensors(self, tensors: Iterable[Tensor]) -> "PairBatch":
        source, target, labels = tensors
        return replace(self, source=source, target=target, labels=labels)


class Task:
    """Pairs to learn from, pairs to be judged by."""

    def __init__(self, recipe: Recipe, vocabulary: Vocabulary, data: Parallel, folder: Path) -> None:
        self.recipe, self.vocabulary, self.data, self.folder = recipe, vocabulary, data, folder
        # One more token on either side: the end of the source, the begin or the end of the target.
        self.plan = BatchPlan(
            data.sources.lengths + 1, data.targets.lengths + 1, recipe.train.tokens, recipe.train.seed
        )
        self.batches_per_epoch = self.plan.batches

    @classmethod
    def prepare(
        cls,
        recipe: Recipe,
        folder: Path,
        data: Mapping[str, Paths | None],
        files: Mapping[str, bytes],
        say: Say,
    ) -> "Task":
        train = check_paths(data["train"] or (), "--train", recipe.data.reading)
        dev = check_paths(data["dev"], "--dev", recipe.data.reading) if data["dev"] else None
        known = Vocabulary.loads(files[TOKENIZER].decode(), TOKENIZER) if TOKENIZER in files else None
        before = read_ready(folder) if known else {}
        if before:
            check_unchanged({"train": train, "dev": dev}, before["files"])
        if known is None or not is_prepared(folder):
            learn = partial(learn_vocabulary, recipe) if known is None else lambda *_: known
            known = prepare_parallel(folder, train, dev, learn, recipe.data.max_length, before.get("text"))
        vocabulary = known
        parallel = open_parallel(folder, vocabulary)
        describe(parallel, vocabulary, recipe.train.validate_lines, say)
        return cls(recipe, vocabulary, parallel, folder)

    def files(self) -> dict[str, bytes]:
        return {TOKENIZER: self.vocabulary.dumps().encode()}

    def build(self) -> Transformer:
        return Transformer(self.recipe.model, self.vocabulary.sizes)

    def batch(self, step: int) -> PairBatch:
        rows = self.plan.rows(step)
        return PairBatch(
            source=torch.from_numpy(self.data.sources.padded(rows, after=END)),
            target=torch.from_numpy(self.data.targets.padded(rows, before=BEGIN)),
            labels=torch.from_numpy(self.data.targets.padded(rows, after=END)),
            count=int(self.data.targets.lengths[rows].sum()) + len(rows),
        )

    def loss(self, model: nn.Module, batch: PairBatch) -> Float[Tensor, ""]:
        return smoothed_loss(model(batch.source, batch.target), batch.labels, self.recipe.train.smoothing)

    def close(self) -> None:
        forget_ids(self.folder)

    def validate(self, model: nn.Module, *, final: bool = False) -> Validation:
        """Loss on all pairs, scores on as many translations as the recipe says: greedy, or as the recipe decodes if final."""
        translator = Translator(model, self.vocabulary, self.recipe)  # type: ignore[arg-type]
        loss = mean_loss(translator.score(self.data.dev))
        metrics = {"loss": loss, "perplexity": perplexity(loss)}
        pairs = spread_pairs(self.data.dev, self.recipe.train.validate_lines)
        if not pairs:
            return Validation(-loss, metrics)
        beam = self.recipe.decode.beam if final else 1
        search = translator.search(beam=beam, batch=VALIDATION_BATCH)
        outputs = translator.translate_distinct([source for source, _ in pairs], search)
        scores = score_outputs(pairs, outputs, symbols=self.vocabulary.target.kind == "symbols")
        samples = [Sample(*pair, output) for pair, output in zip(pairs[:SAMPLES], outputs, strict=False)]
        return Validation(chosen_by(scores), metrics | reported(scores), samples)


def learn_vocabulary(recipe: Recipe, sources: Lines, targets: Lines) -> Vocabulary:
    joint = recipe.model.tie == "all"
    return train_vocabulary(recipe.data.tokenizers, sources, targets, size=recipe.data.vocabulary, joint=joint)


def check_unchanged(data: Mapping[str, Sequence[Corpus] | None], before: Mapping[str, list[str | None]]) -> None:
    """A resumed run is the same run: on the same data."""
    for name, sums in fingerprint(data).items():
        if len(sums) != len(before[name]):
            raise changed_data(f"{len(sums)} files as --{name} instead of {len(before[name])}")
        for path, then, now in zip(files_of(data[name] or ()), before[name], sums, strict=True):
            if then != now:
                raise changed_data(f"other content in {path}" if now else f"{path}, which cannot be read")


def changed_data(got: str) -> InputError:
    return InputError(
        f"a run goes on with the data it began with, got {got}", hint="another --out starts a run of its own"
    )


def describe(data: Parallel, vocabulary: Vocabulary, translated: int, say: Say) -> None:
    tokens = int(data.targets.lengths.sum())
    say(f"train: {len(data.sources):,} pairs, {tokens:,} target pieces" + listed(data.train_counts.sentences()))
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


def smoothed_loss(logits: Float[Tensor, "B T W"], labels: Int[Tensor, "B T"], smoothing: float) -> Float[Tensor, ""]:
    """Summed cross-entropy; a share of the probability is spread over the vocabulary."""
    return F.cross_entropy(
        logits.flatten(0, 1).float(), labels.flatten(), ignore_index=PADDING, label_smoothing=smoothing, reduction="sum"
    )


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
