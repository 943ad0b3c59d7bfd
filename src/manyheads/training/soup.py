"""`manyheads.average_models`: the mean of the weights of several models, or of several checkpoints of one, as a model.

A mean of weights is meaningful if they have a common origin: checkpoints of one run, or models that were fine-tuned
from one model. A greedy soup (Wortsman et al. 2022) takes the best of them and adds each of the others only if that
does no harm.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite
from pathlib import Path

from torch import Tensor, nn

from manyheads.decoding.translator import Translator
from manyheads.errors import InputError, OptionError
from manyheads.evaluation.scores import score_outputs
from manyheads.machine import choose_device
from manyheads.modelfolder import check_new, find_model, load_model, load_weights, save_model
from manyheads.models.transformer import Transformer
from manyheads.recipe import Recipe
from manyheads.storage import is_whole, read_file, read_manifest
from manyheads.tasks.translate import chosen_by
from manyheads.text.corpus import Counts, Paths, check_paths
from manyheads.text.parallel import read_dev
from manyheads.text.vocabulary import Vocabulary
from manyheads.training.average import mean_weights
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.run import Run
from manyheads.training.show import Show
from manyheads.training.state import AVERAGE, WEIGHTS

__all__ = ["Averaged", "average_models"]

Say = Callable[[str], None]
Weights = dict[str, Tensor]

ONLY_IN_TRAINING = {"dropout", "attention_dropout", "feedforward_dropout", "drop_path"}
"""Keys in which two models may differ and still compute alike."""


@dataclass(frozen=True)
class Averaged:
    """Where the mean is, which parts it was taken of, and its score if there is one."""

    folder: Path
    parts: tuple[str, ...]
    score: float | None = None


@dataclass(frozen=True)
class Part:
    """A model or a checkpoint. Its weights are read when needed, so that only a few are in memory at a time."""

    name: str
    weights: Callable[[], Weights]


def average_models(
    out: str | Path,
    models: str | Path | Sequence[str | Path],
    *,
    checkpoints: int | None = None,
    weights: Sequence[float] = (),
    greedy: bool = False,
    data: Paths | None = None,
    device: str = "auto",
    quiet: bool = False,
) -> Averaged:
    """Write the mean of several models, or of the last checkpoints of a run, to a new folder.

    models        run folders, model folders or bundled models, built alike and with the same vocabulary
    checkpoints   average this many of the last checkpoints of one run instead
    weights       how much each counts (default: all equally)
    greedy        start with the best by chrF (or by word and phone errors) on `data`; add those that do not make it
                  worse
    device        where `greedy` translates
    """
    folders = [models] if isinstance(models, (str, Path)) else list(models)
    check_options(folders, checkpoints, weights, greedy, data)
    check_new(out)
    model, vocabulary, recipe = load_model(folders[0])
    parts = list(
        last_checkpoints(folders[0], checkpoints, model) if checkpoints else alike(folders, vocabulary, recipe)
    )
    check_shares(weights, parts)
    with Show(quiet) as show:
        score = None
        if greedy:
            translator = Translator(model.to(choose_device(device)), vocabulary, recipe)
            parts, score = greedy_soup(parts, judge(translator, data or (), show.say), show.say)
        model.load_state_dict(mean_weights((part.weights() for part in parts), weights))
        save_model(out, model, vocabulary, recipe)
        counted = [f"{weight:g} × {part.name}" for weight, part in zip(weights, parts, strict=False)]
        show.say(f"{out}: the mean of {', '.join(counted or [part.name for part in parts])}")
    return Averaged(Path(out), tuple(part.name for part in parts), score)


# ── parts of the mean ───────────────────────────────────────────────────────────────────────────────────────────────


def alike(folders: Sequence[str | Path], vocabulary: Vocabulary, recipe: Recipe) -> Iterator[Part]:
    """The models as parts, if they compute like the first and have its vocabulary."""
    for folder in folders:
        _, other, others = load_model(folder)
        for key, one, another in differences(recipe, others):
            raise InputError(
                f"models must be built alike, got model.{key} = {one!r} in {folders[0]} and {another!r} in {folder}"
            )
        if other.dumps() != vocabulary.dumps():
            raise InputError(f"models must share one vocabulary, got different ones in {folders[0]} and {folder}")
        yield Part(str(folder), partial(model_weights, folder))


def differences(one: Recipe, other: Recipe) -> Iterator[tuple[str, object, object]]:
    others = asdict(other.model)
    for key, value in asdict(one.model).items():
        if value != others[key] and key not in ONLY_IN_TRAINING:
            yield key, value, others[key]


def model_weights(folder: str | Path) -> Weights:
    return load_model(folder)[0].state_dict()


def last_checkpoints(folder: str | Path, count: int, model: Transformer) -> Iterator[Part]:
    """The newest first; damaged ones are skipped, as when a run resumes."""
    run = Run(find_model(folder))
    whole = [path for path in Checkpoints(run.checkpoints, lambda _: None).steps() if is_whole(path)]
    if len(whole) < count:
        raise InputError(
            f"there must be as many complete checkpoints as requested, got {len(whole)} of {count} in {run.checkpoints}",
            hint="train.keep sets how many a run keeps",
        )
    for path in whole[:count]:
        yield Part(str(path), partial(checkpoint_weights, path, model))


def checkpoint_weights(path: Path, model: nn.Module) -> Weights:
    """The weights that would be used if training had ended there: their moving average, if there was one."""
    name = AVERAGE if AVERAGE in read_manifest(path) else WEIGHTS
    then = copy.deepcopy(model)
    load_weights(then, read_file(path, name), str(path / name))
    return then.state_dict()


# ── the greedy soup ─────────────────────────────────────────────────────────────────────────────────────────────────


def judge(translator: Translator, data: Paths, say: Say) -> Callable[[Weights], float]:
    """A function from weights to how well they translate the pairs (higher is better). The pairs are read once."""
    counts = Counts()
    pairs = read_dev(check_paths(data, "--data", translator.recipe.data.reading), counts)
    for sentence in counts.sentences():
        say(sentence)

    def score(weights: Weights) -> float:
        translator.model.load_state_dict(weights)
        outputs = [one.text for one in translator.translate_distinct([source for source, _ in pairs])]
        return chosen_by(score_outputs(pairs, outputs, symbols=translator.vocabulary.target.kind == "symbols"))

    return score


def greedy_soup(parts: Sequence[Part], score: Callable[[Weights], float], say: Say) -> tuple[list[Part], float]:
    """(the parts with the best mean, its score), found by adding one part after the other, the best first."""
    scores = {part: score(part.weights()) for part in parts}
    for part, value in scores.items():
        say(f"{value:.2f}  {part.name}")
    first, *others = sorted(parts, key=lambda part: -scores[part])
    taken, best = [first], scores[first]
    for part in others:
        value = score(mean_weights(one.weights() for one in [*taken, part]))
        say(f"{value:.2f}  with {part.name}: {'taken' if value >= best else 'left out'}")
        if value >= best:
            taken, best = [*taken, part], value
    return taken, best


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


def check_options(
    folders: Sequence[str | Path],
    checkpoints: int | None,
    weights: Sequence[float],
    greedy: bool,
    data: Paths | None,
) -> None:
    if checkpoints is None and len(folders) < 2:
        raise OptionError(
            f"a mean needs at least two models, got {len(folders)}",
            hint="--checkpoints 5 averages the last 5 of one run",
        )
    if checkpoints is not None and (len(folders) != 1 or checkpoints < 2):
        raise OptionError(
            f"--checkpoints needs at least 2 checkpoints of one run, got {checkpoints} of {len(folders)} runs"
        )
    if greedy and weights:
        raise OptionError("--greedy decides which models count, got --weights too")
    if greedy != bool(data):
        raise OptionError(f"--greedy and --data must be given together, got {'--greedy' if greedy else '--data'} alone")


def check_shares(weights: Sequence[float], parts: Sequence[Part]) -> None:
    if weights and len(weights) != len(parts):
        raise OptionError(f"--weights must be one number per model, got {len(weights)} for {len(parts)}")
    for weight in weights:
        if not (isfinite(weight) and weight > 0):
            raise OptionError(f"--weights must be numbers above 0, got {weight}")
